// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"runtime"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// stuckLoads are loads of which that of one account counts a request only once proceed is closed.
type stuckLoads struct {
	account workload.ID
	reached chan struct{}
	proceed chan struct{}
}

func (l *stuckLoads) Of(_ model.ClusterKey, account workload.ID) Load {
	if account == l.account {
		return stuckLoad{&ownLoad{}, l}
	}
	return nil
}

func (l *stuckLoads) Fullest() func(model.ClusterKey) uint32 {
	return func(model.ClusterKey) uint32 { return 0 }
}

type stuckLoad struct {
	*ownLoad
	in *stuckLoads
}

func (l stuckLoad) Enter(limit uint32) (leave func(), ok bool) {
	l.in.reached <- struct{}{}
	<-l.in.proceed
	return l.ownLoad.Enter(limit)
}

// Requests of one account that wait for each other at its gate, as where thousands time out, keep no request of another account waiting, and no sweep.
func TestACrowdAtOneGateKeepsNoOtherWaiting(t *testing.T) {
	loads := &stuckLoads{account: hostile, reached: make(chan struct{}, 2), proceed: make(chan struct{})}
	g, c := NewCircuitBreakers(loads), clusterWith(model.Breakers{MaxConnections: 9, MaxPending: 9, MaxRequests: 9})
	crowd := make(chan error, 2)
	enter := func(account workload.ID) error {
		leave, err := g.Admission(account, model.PriorityDefault, c).Enter(t.Context())
		if err == nil {
			leave()
		}
		return err
	}
	go func() { crowd <- enter(hostile) }()
	<-loads.reached
	// It comes to the gate at some moment of what follows.
	go func() { crowd <- enter(hostile) }()
	others := make(chan error, 1)
	go func() {
		for range 1000 {
			if err := enter(other); err != nil {
				others <- err
				return
			}
			g.Sweep(func(model.ClusterKey) bool { return true })
			runtime.Gosched()
		}
		others <- nil
	}()
	await.Quiet(t, func() string {
		select {
		case err := <-others:
			if err != nil {
				t.Error(err)
			}
			return ""
		default:
			return "requests of another account wait"
		}
	})
	close(loads.proceed)
	for range 2 {
		if err := <-crowd; err != nil {
			t.Error(err)
		}
	}
	g.Sweep(func(model.ClusterKey) bool { return true })
	if breakers, _ := g.Len(); breakers != 0 {
		t.Errorf("%d gates are left at the end, want none", breakers)
	}
}
