// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"sync/atomic"
	"testing"
	"time"
)

func every(t *testing.T, f func(now time.Time) time.Duration) *Beat {
	t.Helper()
	b, err := Every(f)
	must(t, err)
	t.Cleanup(b.Stop)
	return b
}

// counted returns a beat of this pace that tells of each call.
func counted(t *testing.T, pace time.Duration) (*Beat, *recorder) {
	t.Helper()
	r := newRecorder()
	return every(t, func(time.Time) time.Duration {
		r.Ready()
		return pace
	}), r
}

func TestBeatsGoOn(t *testing.T) {
	_, quick := counted(t, time.Millisecond)
	_, slow := counted(t, 30*time.Millisecond)
	for range 3 {
		slow.await(t, "slow beat")
	}
	if n := quick.calls.Load(); n < 6 {
		t.Errorf("calls of the quick beat: got %d, want at least 6", n)
	}
}

func TestBeatsOfOnePaceComeTogether(t *testing.T) {
	const pace = 40 * time.Millisecond
	var at [2]chan time.Time
	for i := range at {
		at[i] = make(chan time.Time, 64)
		every(t, func(now time.Time) time.Duration {
			at[i] <- now
			return pace
		})
		time.Sleep(pace / 4)
	}
	a, b := <-at[0], <-at[1]
	for range 8 {
		switch a.Compare(b) {
		case 0:
			return
		case -1:
			a = <-at[0]
		case 1:
			b = <-at[1]
		}
	}
	t.Errorf("calls of two beats never come at one time; the last at %v and %v", a, b)
}

func TestBeatComesSooner(t *testing.T) {
	b, r := counted(t, time.Hour)
	r.await(t, "first call")
	b.Soon(2 * time.Hour)
	b.Soon(time.Millisecond)
	r.await(t, "hastened call")
	time.Sleep(tooEarly)
	r.mustHave(t, 2, "of an hour's pace, hastened once")
}

func TestBeatMayBeHastenedByItsCall(t *testing.T) {
	var b atomic.Pointer[Beat]
	r := newRecorder()
	b.Store(every(t, func(time.Time) time.Duration {
		if self := b.Load(); self != nil {
			self.Soon(time.Millisecond)
		}
		r.Ready()
		return time.Hour
	}))
	r.await(t, "first call")
	b.Load().Soon(time.Millisecond)
	for range 3 {
		r.await(t, "next call")
	}
}

func TestStoppedBeatIsSilent(t *testing.T) {
	for range 50 {
		var stopped atomic.Bool
		b, err := Every(func(time.Time) time.Duration {
			if stopped.Load() {
				t.Error("called after Stop")
			}
			return 100 * time.Microsecond
		})
		must(t, err)
		time.Sleep(time.Millisecond)
		b.Stop()
		stopped.Store(true)
		b.Soon(1)
		b.Stop()
	}
	time.Sleep(tooEarly)
	if n := len(beats.beats); n != 0 {
		t.Errorf("beats left: got %d, want 0", n)
	}
}
