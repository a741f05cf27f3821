// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

// Admission is a request's way through the gate of its cluster, priority and account.
type Admission struct {
	// Tally is the cluster's.
	Tally    *Tally
	breakers *CircuitBreakers
	key      gateKey
	account  workload.ID
	limits   model.Breakers
	// gate is the one that the request has passed.
	gate *gate
}

// Admission is that of a request of an account.
func (g *CircuitBreakers) Admission(account workload.ID, p model.Priority, cluster *model.Cluster) *Admission {
	return &Admission{Tally: g.Tally(cluster.Key()), breakers: g, key: gateKey{cluster.Key(), p}, account: account, limits: cluster.BreakersOf(p)}
}

// NoPools reports that the cluster has no pools of connections, so that no request to it is sent.
func (a *Admission) NoPools() bool { return a.limits.NoPools }

// Enter counts the request, or waits until it can; ErrOverflow, or why ctx has ended, says that it must not be sent. leave takes it back, once.
func (a *Admission) Enter(ctx context.Context) (leave func(), err error) {
	a.gate = a.breakers.locked(a.key, a.account)
	w, leave, err := a.gate.passOrWait(&a.limits)
	a.gate.mu.Unlock()
	if w == nil {
		return leave, err
	}
	return a.gate.await(ctx, w)
}

// Adopt is Enter for a request that the account's Load counts already; leave takes it from there.
func (a *Admission) Adopt(leave func()) func() {
	a.gate = a.breakers.locked(a.key, a.account)
	defer a.gate.mu.Unlock()
	return a.gate.leaverLocked(leave)
}

// Overflowed counts a request that was refused.
func (a *Admission) Overflowed() {
	if a.limits.Waits() {
		a.Tally.pending.Add(1)
		return
	}
	a.Tally.active.Add(1)
}

// enterRetry counts a retry, unless there are as many as there may be. The request has passed.
func (a *Admission) enterRetry() bool { return a.gate.enterRetry(&a.limits) }

func (a *Admission) leaveRetry() { a.gate.leaveRetry() }
