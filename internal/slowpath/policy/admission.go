// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"

	"github.com/xlb-project/xlb/internal/model"
)

// Admission is a request's way through the gate of its cluster and priority.
type Admission struct {
	// Tally is the cluster's.
	Tally  *Tally
	gate   *gate
	limits model.Breakers
}

// Admission is that of a request to the cluster of that name.
func (g *CircuitBreakers) Admission(name string, p model.Priority, cluster *model.Cluster) *Admission {
	return &Admission{g.Tally(name), g.of(name, p), cluster.BreakersOf(p)}
}

// NoPools reports that the cluster has no pools of connections, so that no request to it is sent.
func (a *Admission) NoPools() bool { return a.limits.NoPools }

// Enter counts the request, or waits until it can; ErrOverflow, or why ctx has ended, says that it must not be sent. leave takes it back, once.
func (a *Admission) Enter(ctx context.Context) (leave func(), err error) {
	return a.gate.enter(ctx, &a.limits)
}

// Adopt is Enter for a request that the cluster's Load counts already; leave takes it from there.
func (a *Admission) Adopt(leave func()) func() { return a.gate.leaver(leave) }

// Overflowed counts a request that was refused.
func (a *Admission) Overflowed() {
	if a.limits.Waits() {
		a.Tally.pending.Add(1)
		return
	}
	a.Tally.active.Add(1)
}

// enterRetry counts a retry, unless there are as many as there may be.
func (a *Admission) enterRetry() bool { return a.gate.enterRetry(&a.limits) }

func (a *Admission) leaveRetry() { a.gate.leaveRetry() }
