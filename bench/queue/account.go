// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"sync"
	"time"
)

// Account is what a station has seen since the one before was taken.
type Account struct {
	Requests int64 `json:"requests"`
	// Mean and Deviation, the standard one, of the requests under way, weighted by how long they were that many; Max is the most.
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Max       int     `json:"max"`
}

// ledger keeps an account.
type ledger struct {
	now func() time.Duration

	// mu guards everything below.
	mu       sync.Mutex
	requests int64
	underWay int
	max      int
	// since is when the account began, and changed when underWay last did; sum and squares are its integrals over the seconds until then.
	since, changed time.Duration
	sum, squares   float64
}

func newLedger(now func() time.Duration) *ledger {
	return &ledger{now: now, since: now(), changed: now()}
}

// begin notes a request, end that it is answered.
func (l *ledger) begin() { l.change(1) }
func (l *ledger) end()   { l.change(-1) }

func (l *ledger) change(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.underWay += by
	l.max = max(l.max, l.underWay)
	if by < 0 {
		l.requests++
	}
}

// settle adds up until now.
func (l *ledger) settle() {
	now := l.now()
	seconds, n := (now - l.changed).Seconds(), float64(l.underWay)
	l.sum += n * seconds
	l.squares += n * n * seconds
	l.changed = now
}

// take returns the account and begins another.
func (l *ledger) take() Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	a := Account{Requests: l.requests, Max: l.max}
	if seconds := (l.changed - l.since).Seconds(); seconds > 0 {
		a.Mean = l.sum / seconds
		a.Deviation = math.Sqrt(max(0, l.squares/seconds-a.Mean*a.Mean))
	}
	l.requests, l.max, l.since, l.sum, l.squares = 0, l.underWay, l.changed, 0, 0
	return a
}
