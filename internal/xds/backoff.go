// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff paces attempts: each pause is random below a bound that doubles, as Envoy's (500 ms to 30 s).
type backoff struct {
	first, longest time.Duration
	bound          time.Duration
}

func (b *backoff) reset() { b.bound = 0 }

func (b *backoff) next() time.Duration {
	b.bound = min(b.longest, max(b.first, 2*b.bound))
	return rand.N(b.bound) + 1
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
