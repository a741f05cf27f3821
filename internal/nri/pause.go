// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"time"
)

// Pauses between attempts to connect. To ask for a socket that is not there costs microseconds, and a pod that begins meanwhile is served late.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 4 * time.Second
)

// pause paces attempts: each is twice as long as the one before, up to the longest.
type pause struct {
	first, longest time.Duration
	next           time.Duration
}

func (p *pause) reset() { p.next = 0 }

// wait returns false if ctx ends first.
func (p *pause) wait(ctx context.Context) bool {
	p.next = min(p.longest, max(p.first, 2*p.next))
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
