// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

const (
	hostile = workload.ID(7)
	other   = workload.ID(8)
)

func clusterWith(b model.Breakers) *model.Cluster {
	return &model.Cluster{Name: "c", Breakers: [2]*model.Breakers{&b, &b}}
}

// A copy does not wait where no request may be asked.
func TestNothingWaitsWhereThereAreNoPools(t *testing.T) {
	c := clusterWith(model.Breakers{MaxConnections: 1, MaxPending: 9, MaxRequests: 9, NoPools: true})
	if leave, err := NewCircuitBreakers(nil).Admission(other, model.PriorityDefault, c).Enter(t.Context()); !errors.Is(err, ErrOverflow) {
		t.Errorf("entered %t: %v", leave != nil, err)
	}
}

// Each limit is an account's own: what one has in flight, waiting and sent again refuses nothing of another.
func TestEachAccountHasTheLimitsForItself(t *testing.T) {
	for _, p := range []model.Priority{model.PriorityDefault, model.PriorityHigh} {
		g, c := NewCircuitBreakers(nil), clusterWith(model.Breakers{MaxConnections: 2, MaxPending: 1, MaxRequests: 2, MaxRetries: 1, TrackRemaining: true})
		fill := func(account workload.ID) {
			t.Helper()
			for i := range 2 {
				a := g.Admission(account, p, c)
				if _, err := a.Enter(t.Context()); err != nil {
					t.Fatalf("request %d of account %d: %v", i, account, err)
				}
				if got := a.enterRetry(); got != (i == 0) {
					t.Errorf("retry %d of account %d: %t", i, account, got)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := g.Admission(account, p, c).Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a third request of account %d: %v, want that it waits", account, err)
			}
		}
		prefix := map[model.Priority]string{model.PriorityDefault: "circuit_breakers.default.", model.PriorityHigh: "circuit_breakers.high."}[p]
		if s := g.Stats()(c); s[prefix+"rq_open"] != 0 || s[prefix+"remaining_rq"] != 2 || s[prefix+"remaining_retries"] != 1 {
			t.Errorf("before any request: %v", s)
		}
		fill(hostile)
		if s := g.Stats()(c); s[prefix+"rq_open"] != 1 || s[prefix+"remaining_rq"] != 0 || s[prefix+"rq_retry_open"] != 1 || s[prefix+"remaining_retries"] != 0 {
			t.Errorf("one account is at its limits: %v", s)
		}
		fill(other)
	}
}

// The first of an account's waiting requests passes when one of its own ends, and not when one of another does.
func TestTheEndOfARequestLetsPassItsOwnAccount(t *testing.T) {
	g, c := NewCircuitBreakers(nil), clusterWith(model.Breakers{MaxConnections: 1, MaxPending: 1, MaxRequests: 1})
	enter := func(account workload.ID) func() {
		t.Helper()
		leave, err := g.Admission(account, model.PriorityDefault, c).Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, its := enter(hostile), enter(other)
	passed := make(chan func())
	go func() {
		leave, err := g.Admission(other, model.PriorityDefault, c).Enter(t.Context())
		if err != nil {
			t.Error(err)
		}
		passed <- leave
	}()
	await.Quiet(t, func() string {
		if _, waiting := g.Counts(model.SharedCluster("c"), model.PriorityDefault); waiting == 0 {
			return "no request waits"
		}
		return ""
	})
	first()
	gate := g.locked(gateKey{model.SharedCluster("c"), model.PriorityDefault}, other)
	gate.passLocked(gate.load())
	if len(gate.waiting) != 1 {
		t.Error("a request passes where its account has as many as it may")
	}
	gate.mu.Unlock()
	its()
	(<-passed)()
	if active, waiting := g.Counts(model.SharedCluster("c"), model.PriorityDefault); active != 0 || waiting != 0 {
		t.Errorf("%d in flight, %d waiting at the end", active, waiting)
	}
}

// One account that has requests wait at thousands of clusters has all of them looked at as often as it would ten.
func TestTheGatesOfAnAccountShareTheirLooks(t *testing.T) {
	for gates, want := range map[int64]time.Duration{1: time.Millisecond, 10: time.Millisecond, 100: 10 * time.Millisecond, 4096: 409600 * time.Microsecond} {
		if got := pollPace(gates); got != want {
			t.Errorf("each of %d gates looks every %v, want %v", gates, got, want)
		}
	}
	g, c := NewCircuitBreakers(nil), clusterWith(model.Breakers{MaxConnections: 1, MaxPending: 1, MaxRequests: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var leaves []func()
	var waiting sync.WaitGroup
	for i := range 20 {
		// What comes behind a sweep, of an account with requests in flight and none that waits, shares with what was there.
		if i == 1 {
			g.Sweep(func(model.ClusterKey) bool { return true })
		}
		c.Name = fmt.Sprint(i)
		leave, err := g.Admission(hostile, model.PriorityDefault, c).Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
		if i == 0 {
			continue
		}
		second := g.Admission(hostile, model.PriorityDefault, c)
		waiting.Go(func() { _, _ = second.Enter(ctx) })
	}
	mustPoll := func(id workload.ID, want int64) {
		t.Helper()
		await.Quiet(t, func() string {
			if got := g.of(gateKey{model.SharedCluster("0"), model.PriorityDefault}, id).account.polling.Load(); got != want {
				return fmt.Sprintf("%d gates of account %d look, want %d", got, id, want)
			}
			return ""
		})
	}
	mustPoll(hostile, 19)
	mustPoll(other, 0)
	cancel()
	waiting.Wait()
	for _, leave := range leaves {
		leave()
	}
	mustPoll(hostile, 0)
}

// Gates are forgotten while requests come and go: each request stays in its account's count, and nothing is left.
func TestSweepsLoseNoCount(t *testing.T) {
	const limit = 3
	g, c := NewCircuitBreakers(nil), clusterWith(model.Breakers{MaxConnections: limit, MaxPending: 1000, MaxRequests: limit})
	var mu sync.Mutex
	var inFlight, most int
	add := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		inFlight += n
		most = max(most, inFlight)
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 2000 {
				leave, err := g.Admission(other, model.PriorityDefault, c).Enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				add(1)
				g.Sweep(func(model.ClusterKey) bool { return true })
				add(-1)
				leave()
			}
		})
	}
	clients.Wait()
	if most > limit {
		t.Errorf("%d in flight at once, the limit is %d", most, limit)
	}
	await.Quiet(t, func() string {
		g.Sweep(func(model.ClusterKey) bool { return true })
		if breakers, _ := g.Len(); breakers != 0 {
			return fmt.Sprintf("%d gates are left", breakers)
		}
		return ""
	})
}
