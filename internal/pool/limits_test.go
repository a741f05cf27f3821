// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestOnlyTimeWithoutALeaseIsIdle(t *testing.T) {
	var w wear
	var sl maps.Slot
	now := time.Unix(100, 0)
	steps := []struct {
		name   string
		lease  uint64
		leased bool
		since  int64
	}{
		{"opened", 0, false, 100},
		{"unused", 0, false, 100},
		{"leased", 1, true, 102},
		{"still leased", 1, true, 103},
		{"ended", 2, false, 104},
		{"idle", 2, false, 104},
		{"leased and ended between two sweeps", 4, false, 106},
	}
	for i, s := range steps {
		sl.Lease = s.lease
		w.inUse(&sl, s.leased, now.Add(time.Duration(i)*time.Second))
		if got := w.since.Unix(); got != s.since {
			t.Errorf("%s: idle since %d, want %d", s.name, got, s.since)
		}
	}
}
