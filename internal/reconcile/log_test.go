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

func TestOfManyChangesInARowFewAreLogged(t *testing.T) {
	s := newLogLimiter()
	now := time.Unix(1, 0)
	logged := 0
	for range 100 * 100 { // 100 s
		if s.allow(now) {
			logged++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if want := logBurst + 9; logged != want || s.suppressed != 100*100-want {
		t.Errorf("logged %d, want %d; suppressed %d", logged, want, s.suppressed)
	}
	now = now.Add(time.Hour)
	for i := range logBurst {
		if !s.allow(now) {
			t.Errorf("change %d after an hour of none is not logged", i)
		}
	}
	if s.allow(now) {
		t.Error("more changes are logged at once than are to be")
	}
}

func TestLineOfAChangeCountsThoseBeforeItOnlyIfThereWereSome(t *testing.T) {
	var log strings.Builder
	now := time.Unix(1, 0)
	r := &Reconciler{log: slog.New(logging.NewHandler(&log, slog.LevelInfo)), limiter: newLogLimiter(), now: func() time.Time { return now }, stats: Stats{Routes: 1}}
	for range logBurst + 3 {
		r.logActive(&compile.Image{})
	}
	if strings.Contains(log.String(), "suppressed") {
		t.Errorf("nothing was left out, and a line counts it:\n%s", log.String())
	}
	log.Reset()
	now = now.Add(logEvery)
	r.logActive(&compile.Image{})
	if !strings.HasSuffix(log.String(), " writes=1 suppressed=3\n") {
		t.Errorf("got %q, want the three that were left out", log.String())
	}
}
