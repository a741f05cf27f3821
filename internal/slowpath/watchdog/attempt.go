// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"errors"
	"time"
)

// ErrAttemptTimeout is the cause where an attempt took longer than its policy allows.
var ErrAttemptTimeout = errors.New("time for one attempt expired")

// Tally counts attempts that were interrupted.
type Tally interface {
	// AttemptTimedOut counts one that took too long, AttemptStalled one without progress for too long.
	AttemptTimedOut()
	AttemptStalled()
}

// LimitAttempt calls cancel for an attempt that takes too long: longer than total to the head of its response, from when whole is closed, the end of the
// request, and longer than idle without progress; 0 is no bound. It ends with ctx. The function is to be called when the head is there.
func (w *Watchdog) LimitAttempt(
	ctx context.Context, cancel context.CancelCauseFunc, whole <-chan struct{}, total, idle time.Duration, tally Tally,
) (headArrived func()) {
	head := make(chan struct{})
	go func() {
		defer w.crashes.Recover("the time of an attempt", w.Crashed)
		w.limitAttempt(ctx, cancel, whole, head, total, idle, tally)
	}()
	return func() { close(head) }
}

func (w *Watchdog) limitAttempt(
	ctx context.Context, cancel context.CancelCauseFunc, whole, head <-chan struct{}, most, limit time.Duration, tally Tally,
) {
	select {
	case <-whole:
	case <-ctx.Done():
		return
	}
	began := time.Now()
	var total, idle <-chan time.Time
	if most > 0 {
		total = time.After(most)
	}
	if limit > 0 {
		idle = time.After(limit)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-head:
			head, total = nil, nil
		case <-total:
			tally.AttemptTimedOut()
			cancel(ErrAttemptTimeout)
			return
		case <-idle:
			left := limit - time.Since(latest(began, w.lastProgress()))
			if left <= 0 {
				tally.AttemptStalled()
				cancel(ErrAttemptTimeout)
				return
			}
			idle = time.After(left)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
