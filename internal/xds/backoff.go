// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff paces attempts: each pause is random below a bound that doubles, as Envoy's (500 ms to 30 s).
type Backoff struct {
	// First is the bound at first, and after Reset; Longest is the highest.
	First, Longest time.Duration
	bound          time.Duration
}

// Reset has the next pause be one of the first.
func (b *Backoff) Reset() { b.bound = 0 }

// Next is how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.bound = min(b.Longest, max(b.First, 2*b.bound))
	return rand.N(b.bound) + 1
}

// Sleep returns false if the context ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
