// SPDX-License-Identifier: Apache-2.0

package workload

import "time"

// paced is something that is to be done once, however often it is requested until then.
type paced struct {
	timer    *time.Timer
	isWanted bool
}

func newPaced() *paced {
	p := &paced{timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// want requests it in so long, unless it is to be done already.
func (p *paced) want(in time.Duration) {
	if p.isWanted {
		return
	}
	p.isWanted = true
	p.timer.Reset(in)
}

// due receives when it is to be done.
func (p *paced) due() <-chan time.Time { return p.timer.C }

// done says that it is being done: it may be requested again.
func (p *paced) done() { p.isWanted = false }

func (p *paced) stop() { p.timer.Stop() }
