// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/logging"
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

func TestLineOfAChangeCountsThoseBeforeItOnlyIfThereWereSome(t *testing.T) {
	var log strings.Builder
	now := time.Unix(1, 0)
	r := &Reconciler{log: slog.New(logging.NewHandler(&log, slog.LevelInfo)), said: newSaid(), now: func() time.Time { return now }, stats: Stats{Routes: 1}}
	for range saidAtOnce + 3 {
		r.sayInForce(&compile.Image{})
	}
	if strings.Contains(log.String(), "unsaid") {
		t.Errorf("nothing was left out, and a line counts it:\n%s", log.String())
	}
	log.Reset()
	now = now.Add(saidEvery)
	r.sayInForce(&compile.Image{})
	if !strings.HasSuffix(log.String(), " writes=1 unsaid=3\n") {
		t.Errorf("got %q, want the three that were left out", log.String())
	}
}
