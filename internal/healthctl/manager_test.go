// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/health"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// rig is a manager of one endpoint, by index 1, whose flags its changes of health set.
type rig struct {
	mgr     *Manager
	address netip.AddrPort
	// down: no connection to the endpoint can be made. others: network namespaces other than the host's are served.
	down, others atomic.Bool
	// returned counts calls of Config.Returned.
	returned atomic.Int32
}

const index = 1

func newRig() *rig {
	r := &rig{address: netip.MustParseAddrPort("127.0.0.1:80")}
	state := shared.NewHeapShared(shared.Sizes{Clusters: 1, Endpoints: 2, Slots: 1})
	r.mgr = New(Config{
		Shared: state, Logger: slog.New(slog.DiscardHandler),
		SetHealth: func(changes ...reconcile.HealthChange) error {
			for _, c := range changes {
				flags := &state.Endpoints[c.Endpoint].Flags
				atomic.StoreUint32(flags, atomic.LoadUint32(flags)&^uint32(c.Clear)|uint32(c.Set))
			}
			return nil
		},
		Returned:     func(uint32) { r.returned.Add(1) },
		AwaitSecrets: func(context.Context, *model.UpstreamTLS) bool { return true },
		Dial: func(model.View, model.Endpoint, bool) health.Dial {
			return func(context.Context, netip.AddrPort) (net.Conn, error) {
				if r.down.Load() {
					return nil, errors.New("refused")
				}
				near, far := net.Pipe()
				return near, far.Close()
			}
		},
		OthersServed: r.others.Load,
		Spawn:        func(f func()) { go f() },
	})
	return r
}

// apply watches the endpoint as that of this cluster; nil: there is no cluster.
func (r *rig) apply(c *model.Cluster) {
	var clusters []*model.Cluster
	if c != nil {
		c.Name, c.Endpoints = "web", []model.Endpoint{{Address: r.address, Weight: 1}}
		clusters = append(clusters, c)
	}
	r.mgr.Apply(clusters, func(model.ClusterKey) []*reconcile.EndpointEntry {
		return []*reconcile.EndpointEntry{{Index: index, Cluster: model.SharedCluster("web"), Address: r.address}}
	})
}

func (r *rig) has(flag shared.EndpointFlags) bool {
	return atomic.LoadUint32(&r.mgr.cfg.Shared.Endpoints[index].Flags)&uint32(flag) != 0
}

// mustBe waits until nothing is under way, and demands that flag or its absence.
func (r *rig) mustBe(t *testing.T, when string, flag shared.EndpointFlags, want bool) {
	t.Helper()
	synctest.Wait()
	if got := r.has(flag); got != want {
		t.Errorf("%s: flag %#x of the endpoint: got %v, want %v", when, flag, got, want)
	}
}

// run works until the test ends.
func (r *rig) run(t *testing.T) {
	go r.mgr.Run()
	t.Cleanup(r.mgr.Stop)
}

func checked() *model.Cluster {
	every := time.Second
	return &model.Cluster{HealthCheck: &model.HealthCheck{
		Timeout: every / 2, UnhealthyThreshold: 2, HealthyThreshold: 2, TCP: &model.TCPCheck{},
		Intervals: model.CheckIntervals{Healthy: every, Unhealthy: every, HealthyEdge: every, UnhealthyEdge: every, NoTraffic: every, NoTrafficHealthy: every},
	}}
}

func TestEndpointLeavesAndReturnsByItsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.run(t)
		r.apply(checked())
		r.mustBe(t, "the first check has passed", shared.EndpointUnhealthy, false)
		if !r.mgr.Warm() {
			t.Error("not warm behind the first result")
		}
		r.down.Store(true)
		time.Sleep(1500 * time.Millisecond)
		r.mustBe(t, "one check has failed", shared.EndpointUnhealthy, false)
		time.Sleep(time.Second)
		r.mustBe(t, "two checks have failed", shared.EndpointUnhealthy, true)
		r.down.Store(false)
		time.Sleep(3 * time.Second)
		r.mustBe(t, "checks pass again", shared.EndpointUnhealthy, false)
		stats := r.mgr.Stats(model.SharedCluster("web"))
		if n := stats["health_check.failure"]; n != 2 {
			t.Errorf("failed checks: got %d, want 2", n)
		}
		if n := r.returned.Load(); n != 2 {
			t.Errorf("changes that the pool hears of: got %d, want 2", n)
		}
	})
}

// A cluster that loses its checks, or goes, has endpoints that nothing is known against.
func TestEndpointIsHealthyWithoutChecks(t *testing.T) {
	for name, next := range map[string]*model.Cluster{"without checks": {}, "without the cluster": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.run(t)
				r.down.Store(true)
				r.apply(checked())
				time.Sleep(5 * time.Second)
				r.mustBe(t, "checks fail", shared.EndpointUnhealthy, true)
				r.apply(next)
				r.mustBe(t, name, shared.EndpointUnhealthy, false)
				time.Sleep(5 * time.Second)
				r.mustBe(t, "later", shared.EndpointUnhealthy, false)
				if stats := r.mgr.Stats(model.SharedCluster("web")); stats != nil {
					t.Errorf("statistics of what is not watched: got %v, want none", stats)
				}
			})
		})
	}
}

// Each way in which a result comes counts, and a whole response does not.
func TestResultsEjectAnEndpoint(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report func(mgr *Manager)
		want   bool
	}{
		{"responses of the slow path", func(mgr *Manager) { mgr.Done(index, slowpath.Outcome{Status: 503}) }, true},
		{"good responses of the slow path", func(mgr *Manager) { mgr.Done(index, slowpath.Outcome{Status: 200}) }, false},
		{"picked in vain", func(mgr *Manager) { mgr.Done(index, slowpath.Outcome{}) }, false},
		{"lost leases", func(mgr *Manager) { mgr.Lost(pool.Lost{Endpoint: index, Why: pool.Reset}) }, true},
		{"lost leases whose response is whole", func(mgr *Manager) { mgr.Lost(pool.Lost{Endpoint: index, Why: pool.Reset, Whole: true}) }, false},
		{"leases that stand still", func(mgr *Manager) { mgr.Lost(pool.Lost{Endpoint: index, Why: pool.Stalled}) }, false},
		{"forwarded responses", func(mgr *Manager) { mgr.Relayed(index, slowpath.RelayResult{Status: 503}) }, true},
		{"attempts that the daemon judges", func(mgr *Manager) { mgr.Attempted(index, slowpath.Outcome{Status: 503}) }, true},
		{"another endpoint's", func(mgr *Manager) { mgr.Done(index-1, slowpath.Outcome{Status: 503}) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.run(t)
				r.apply(&model.Cluster{Outlier: &model.OutlierDetection{
					Interval: 10 * time.Second, BaseEjectionTime: 30 * time.Second, MaxEjectionTime: time.Minute, MaxEjectionPercent: 100,
					Consecutive5xx: model.ConsecutiveRule{Count: 3, Enforcing: 100},
				}})
				for range 3 {
					tt.report(r.mgr)
				}
				r.mustBe(t, "three results", shared.EndpointEjected, tt.want)
				time.Sleep(41 * time.Second)
				r.mustBe(t, "the ejection is over", shared.EndpointEjected, false)
				if got, want := r.returned.Load() == 1, tt.want; got != want {
					t.Errorf("a return is reported: got %v, want %v", got, want)
				}
			})
		})
	}
}

// A loopback address is another server in each network namespace: what one does ejects it for none.
func TestLoopbackEndpointIsNotEjectedWhereSeveralNamespacesAreServed(t *testing.T) {
	for _, tt := range []struct {
		address string
		others  bool
		want    bool
	}{{"127.0.0.1:80", true, false}, {"[::1]:80", true, false}, {"127.0.0.1:80", false, true}, {"192.0.2.1:80", true, true}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.address = netip.MustParseAddrPort(tt.address)
			r.others.Store(tt.others)
			r.run(t)
			r.apply(&model.Cluster{Outlier: &model.OutlierDetection{
				Interval: 10 * time.Second, BaseEjectionTime: 30 * time.Second, MaxEjectionTime: time.Minute, MaxEjectionPercent: 100,
				Consecutive5xx: model.ConsecutiveRule{Count: 4, Enforcing: 100},
			}})
			r.mgr.Done(index, slowpath.Outcome{Status: 503})
			r.mgr.Lost(pool.Lost{Endpoint: index, Why: pool.Reset})
			r.mgr.Relayed(index, slowpath.RelayResult{Status: 503})
			r.mgr.Attempted(index, slowpath.Outcome{Status: 503})
			r.mgr.Refused(index, 0)
			r.mgr.Reached(index, shared.OutlierErrors)
			r.mustBe(t, tt.address, shared.EndpointEjected, tt.want)
		})
	}
}

// What is not watched, and what has stopped, takes no notice.
func TestStoppedManagerAsksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.run(t)
		r.apply(checked())
		synctest.Wait()
		r.mgr.Stop()
		attempts := r.mgr.Stats(model.SharedCluster("web"))["health_check.attempt"]
		time.Sleep(time.Minute)
		if now := r.mgr.Stats(model.SharedCluster("web"))["health_check.attempt"]; now != attempts {
			t.Errorf("attempts behind the stop: got %d more, want none", now-attempts)
		}
		if attempts == 0 {
			t.Error("there was no attempt before")
		}
	})
}
