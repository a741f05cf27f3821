// SPDX-License-Identifier: Apache-2.0

package workload

import "time"

// paced is something that is to be done once, however often it is requested until then, and as soon as the first of these wants it.
type paced struct {
	timer *time.Timer
	// at is when it is to be done, zero: it is not requested.
	at time.Time
}

func newPaced() *paced {
	p := &paced{timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// want requests it in so long, unless it is to be done sooner.
func (p *paced) want(in time.Duration) {
	at := time.Now().Add(in)
	if !p.at.IsZero() && !at.Before(p.at) {
		return
	}
	p.at = at
	p.timer.Reset(in)
}

// due receives when it is to be done.
func (p *paced) due() <-chan time.Time { return p.timer.C }

// done says that it is being done: it may be requested again.
func (p *paced) done() { p.at = time.Time{} }

func (p *paced) stop() { p.timer.Stop() }
