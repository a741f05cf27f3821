// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"
)

func TestOfManyChangesInARowFewAreSaid(t *testing.T) {
	s := newSaid()
	now := time.Unix(1, 0)
	told := 0
	for range 100 * 100 { // 100 s
		if s.may(now) {
			told++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if want := saidAtOnce + 9; told != want || s.unsaid != 100*100-want {
		t.Errorf("said %d, want %d; unsaid %d", told, want, s.unsaid)
	}
	now = now.Add(time.Hour)
	for i := range saidAtOnce {
		if !s.may(now) {
			t.Errorf("change %d after an hour of none is not said", i)
		}
	}
	if s.may(now) {
		t.Error("more changes are said at once than are to be")
	}
}
