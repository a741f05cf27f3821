// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"sync"
	"time"
)

// A server that never rests has the newest state handed out again and again. Each Update owes a rest so many times as long as it took, so that
// updates have a fifth of a processor at most. The time between updates pays, and up to restCredit may be owed: where updates are short, or few,
// none waits for another. A rest is maxRest at most, so that no update is late.
const (
	restOfUpdate = 4
	restCredit   = 100 * time.Millisecond
	maxRest      = 250 * time.Millisecond
)

// Pace tells clients how long to rest between updates. Those that have one in common have a fifth of a processor together; each of them that is busy adds
// maxRest to the longest rest. It is safe for concurrent use.
type Pace struct {
	mu sync.Mutex
	// paid is when all rests will have been taken that are owed. Guarded by mu.
	paid time.Time
	// clients hand updates out. Guarded by mu.
	clients int
}

// NewPace returns the pace of one client, or of several.
func NewPace() *Pace { return &Pace{} }

func (p *Pace) join()  { p.count(+1) }
func (p *Pace) leave() { p.count(-1) }

func (p *Pace) count(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients += more
}

// rest is how long a client has to wait after an update.
func (p *Pace) rest(begun time.Time, took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := begun.Add(took)
	if p.paid.Before(begun) {
		p.paid = begun
	}
	p.paid = p.paid.Add(took + restOfUpdate*took)
	if latest := ended.Add(restCredit + time.Duration(max(1, p.clients))*maxRest); p.paid.After(latest) {
		p.paid = latest
	}
	return max(0, p.paid.Sub(ended)-restCredit)
}
