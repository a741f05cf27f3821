// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/health"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/suite"
)

// patience is how long a view waits that has other endpoints than those with which it shares a cluster.
const patience = 300 * time.Millisecond

// chain is what merge, reconcile and healthctl make of the cluster "web" of views.
type chain struct {
	t      *testing.T
	merger *merge.Merger
	rec    *reconcile.Reconciler
	state  *shared.Shared
	mgr    *Manager
	parts  []*model.Config
	got    *merge.Merged
}

func newChain(t *testing.T, views int) *chain {
	sizes := shared.Sizes{
		Listeners: 1, RouteTables: 1, VHosts: 1, Routes: 1, Splits: 1, Rewrites: 1, RetrySets: 1, Tuples: 1, Schedules: 1024,
		BucketLists: 1, Automata: 1, Cells: 1, Accepts: 1, AcceptedValues: 1, Clusters: 16, Groups: 64, Endpoints: 64, Slots: 1,
	}
	r := newRig()
	c := &chain{t: t, merger: merge.New(merge.Times{Patience: patience}), mgr: r.mgr, parts: make([]*model.Config, views), state: shared.NewHeapShared(sizes)}
	c.rec = reconcile.New(mapstest.NewFakeConfig(sizes, func() bool { return false }), c.state, slog.New(slog.DiscardHandler))
	r.mgr.cfg.Shared, r.mgr.cfg.SetHealth = c.state, c.rec.SetHealth
	r.run(t)
	return c
}

func viewOf(number int) model.View {
	if number == 0 {
		return model.View{}
	}
	return model.View{Number: uint32(number), Name: string(rune('a' + number))}
}

// say has a view have the cluster with outlier detection, a health check, and endpoints at these ports.
func (c *chain) say(view int, outlier *model.OutlierDetection, check *model.HealthCheck, ports ...uint16) {
	web := &model.Cluster{View: viewOf(view), Name: "web", Outlier: outlier, HealthCheck: check}
	for _, p := range ports {
		web.Endpoints = append(web.Endpoints, model.Endpoint{Address: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), p), Weight: 1})
	}
	c.parts[view] = &model.Config{Clusters: []*model.Cluster{web}}
}

// switchKernel puts in force what views have said, but for its followers.
func (c *chain) switchKernel() {
	c.t.Helper()
	c.got = c.merger.Merge(c.parts, time.Now())
	image, _ := compile.Compile(c.got.Config)
	if err := c.rec.Switch(image); err != nil {
		c.t.Fatal(err)
	}
	c.merger.Accept(c.got)
}

// watch has the manager watch what is in force.
func (c *chain) watch() {
	c.mgr.Apply(c.got.Config.Clusters, func(key model.ClusterKey) (list []*reconcile.EndpointEntry) {
		for _, e := range c.rec.Endpoints() {
			if e.Cluster == key && !e.Gone {
				list = append(list, &e)
			}
		}
		return list
	})
	synctest.Wait()
}

func (c *chain) activate() {
	c.t.Helper()
	c.switchKernel()
	c.watch()
}

// fork ends the wait of views that have other endpoints than the cluster which they share.
func (c *chain) fork() {
	c.t.Helper()
	time.Sleep(patience)
	if c.activate(); len(c.got.Waited) == 0 {
		c.t.Fatal("no view has left the cluster")
	}
}

func (c *chain) key(view int) model.ClusterKey { return c.got.Config.In(viewOf(view)).Key("web") }

func (c *chain) index(view int, port uint16) uint32 {
	c.t.Helper()
	for _, e := range c.rec.Endpoints() {
		if e.Cluster == c.key(view) && e.Address.Port() == port && !e.Gone {
			return e.Index
		}
	}
	c.t.Fatalf("view %d has no endpoint at port %d", view, port)
	return 0
}

// has reports whether a view's endpoint has a flag.
func (c *chain) has(flag shared.EndpointFlags, view int, port uint16) bool {
	c.t.Helper()
	return shared.EndpointFlags(atomic.LoadUint32(&c.state.Endpoints[c.index(view, port)].Flags))&flag != 0
}

func (c *chain) eject(view int, port uint16) {
	c.t.Helper()
	c.mgr.Reached(c.index(view, port), shared.OutlierErrors)
	if synctest.Wait(); !c.has(shared.EndpointEjected, view, port) {
		c.t.Fatal("the endpoint is not ejected")
	}
}

// requireEjected demands that a view's endpoint is ejected, and returns when its time is over.
func (c *chain) requireEjected(view int, port uint16) {
	c.t.Helper()
	if n := c.mgr.Stats(c.key(view))["outlier_detection.ejections_active"]; n != 1 || !c.has(shared.EndpointEjected, view, port) {
		c.t.Errorf("view %d has left with %d active ejections, want 1", view, n)
	}
	c.requireReturned(view, port)
}

func (c *chain) requireReturned(view int, port uint16) {
	c.t.Helper()
	time.Sleep(ejectionTime + time.Second)
	synctest.Wait()
	if c.has(shared.EndpointEjected, view, port) {
		c.t.Errorf("view %d has its endpoint ejected still when the time is over", view)
	}
}

const ejectionTime = 10 * time.Second

func ejecting() *model.OutlierDetection {
	return &model.OutlierDetection{
		Interval: time.Second, BaseEjectionTime: ejectionTime, MaxEjectionTime: ejectionTime, MaxEjectionPercent: 100,
		Consecutive5xx: model.ConsecutiveRule{Count: 2, Enforcing: 100},
	}
}

// newEjected is a chain of two views whose cluster, which they share, has one endpoint ejected, and another one not.
func newEjected(t *testing.T, check *model.HealthCheck) *chain {
	t.Helper()
	c := newChain(t, 2)
	c.say(0, ejecting(), check, 9000, 9001)
	c.say(1, ejecting(), check, 9000, 9001)
	c.activate()
	c.eject(0, 9000)
	return c
}

// One view's server takes the ejected endpoint out, the other view's adds another one: the latter leaves with an endpoint that the former has no more.
func TestAnEjectionGoesAlongWhereTheOtherClusterLosesTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEjected(t, nil)
		c.say(0, ejecting(), nil, 9001)
		c.activate()
		c.say(1, ejecting(), nil, 9000, 9001, 9002)
		c.activate()
		c.fork()
		c.requireEjected(1, 9000)
	})
}

// One view waits with its endpoints when the other ceases to detect outliers, and has the cluster.
func TestAnEjectionGoesAlongWhereTheOtherClusterCeasesToDetect(t *testing.T) {
	for name, check := range map[string]*model.HealthCheck{"with a check": checked().HealthCheck, "with nothing": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newEjected(t, check)
				c.say(1, ejecting(), check, 9000, 9001, 9002)
				c.activate()
				c.say(0, nil, check, 9000, 9001)
				c.activate()
				if c.key(0) == c.key(1) {
					t.Fatal("no view has left the cluster")
				}
				c.requireEjected(1, 9000)
			})
		})
	}
}

// The kernel's switch waits for programs: meanwhile an ejection may end in the cluster from which a view's endpoints have their flags.
func TestAnEjectionThatEndsWhileAViewLeavesEndsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEjected(t, nil)
		c.say(1, ejecting(), nil, 9000, 9001, 9002)
		c.activate()
		time.Sleep(ejectionTime - time.Second)
		c.switchKernel()
		if !c.has(shared.EndpointEjected, 1, 9000) {
			t.Fatal("the view has not left with the ejection")
		}
		c.state.Endpoints[c.index(1, 9000)].Errors = 1
		time.Sleep(2 * time.Second)
		c.watch()
		if c.has(shared.EndpointEjected, 1, 9000) {
			t.Error("the endpoint is ejected, of which its detector does not know")
		}
		if n := c.state.Endpoints[c.index(1, 9000)].Errors; n != 0 {
			t.Errorf("begins with %d errors in a row, want 0 as where an ejection ends", n)
		}
	})
}

// What is found of an endpoint meanwhile holds for it, too.
func TestACheckThatPassesWhileAViewLeavesPassesForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, 2)
		check := checked().HealthCheck
		c.say(0, nil, check, 9000, 9001)
		c.say(1, nil, check, 9000, 9001)
		c.activate()
		c.fail(9000)
		c.say(1, nil, check, 9000, 9001, 9002)
		c.activate()
		time.Sleep(patience)
		c.switchKernel()
		if !c.has(shared.EndpointUnhealthy, 1, 9000) {
			t.Fatal("the view has not left with an unhealthy endpoint")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if c.has(shared.EndpointUnhealthy, 0, 9000) {
			t.Fatal("the check has not passed")
		}
		c.watch()
		if c.has(shared.EndpointUnhealthy, 1, 9000) {
			t.Error("the endpoint is unhealthy, whose check has passed")
		}
	})
}

// The rules of such a view may eject nothing, and nothing of its own has failed.
func TestAnEndpointThatComesAfterItsViewHasLeftBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChain(t, 2)
		c.say(0, ejecting(), nil, 9000, 9001)
		c.say(1, ejecting(), nil, 9000, 9001)
		c.activate()
		lenient := ejecting()
		lenient.Consecutive5xx.Enforcing, lenient.MaxEjectionPercent = 0, 0
		c.say(1, lenient, nil, 9001)
		c.activate()
		if c.key(0) == c.key(1) {
			t.Fatal("no view has left the cluster")
		}
		c.eject(0, 9000)
		c.say(1, lenient, nil, 9000, 9001)
		c.activate()
		if c.has(shared.EndpointEjected, 1, 9000) {
			t.Error("the endpoint is ejected, as the other view's cluster has it")
		}
	})
}

// fail has the check of the shared view's endpoint fail, until the next attempts.
func (c *chain) fail(port uint16) {
	c.t.Helper()
	c.mgr.mu.Lock()
	defer c.mgr.mu.Unlock()
	m := c.mgr.member(c.index(0, port))
	m.prober.check.Attempted(health.Failed)
	c.mgr.publishLocked(healthOf(m.index, m.prober.check))
}

// Whatever views say, an endpoint is out only for as long as a detector or a check of its own cluster says so.
func TestNoEndpointIsOutWithoutAReasonWhateverViewsSay(t *testing.T) {
	seed := suite.Seed(t)
	for life := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random, c := rand.New(rand.NewPCG(seed, life)), newChain(t, 4)
			c.say(0, ejecting(), nil, 9000, 9001)
			for range 60 {
				c.sayAny(random)
				c.activate()
				c.requireReasons()
				if list := c.rec.Endpoints(); len(list) > 0 && random.IntN(2) == 0 {
					c.mgr.Reached(list[random.IntN(len(list))].Index, shared.OutlierErrors)
				}
				synctest.Wait()
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				c.switchKernel()
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				c.watch()
				c.requireReasons()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, e := range c.rec.Endpoints() {
				if out := c.out(e.Index); !e.Gone && out != 0 {
					t.Errorf("life %d: endpoint %s of %s has flags %#x a minute later, though its server is well", life, e.Address, e.Cluster, out)
				}
			}
		})
	}
}

// out are the flags of an endpoint that say why it gets no requests.
func (c *chain) out(index uint32) shared.EndpointFlags {
	return shared.EndpointFlags(atomic.LoadUint32(&c.state.Endpoints[index].Flags)) & (shared.EndpointEjected | shared.EndpointUnhealthy | shared.EndpointDegraded)
}

// requireReasons demands that the flags of endpoints are those that the manager knows of.
func (c *chain) requireReasons() {
	c.t.Helper()
	c.mgr.mu.Lock()
	defer c.mgr.mu.Unlock()
	for _, e := range c.rec.Endpoints() {
		var want shared.EndpointFlags
		if m := c.mgr.member(e.Index); m != nil && m.cluster.detector != nil && m.cluster.detector.Ejected(e.Index) {
			want |= shared.EndpointEjected
		}
		if m := c.mgr.member(e.Index); m != nil && m.prober != nil && !m.prober.check.Healthy() {
			want |= shared.EndpointUnhealthy
		}
		if got := c.out(e.Index); !e.Gone && got != want {
			c.t.Errorf("endpoint %s of %s has flags %#x, want %#x", e.Address, e.Cluster, got, want)
		}
	}
}

// sayAny has some view have the cluster with anything, or have it no more.
func (c *chain) sayAny(random *rand.Rand) {
	view := random.IntN(len(c.parts))
	if view > 0 && random.IntN(6) == 0 {
		c.parts[view] = nil
		return
	}
	var outlier *model.OutlierDetection
	var check *model.HealthCheck
	if random.IntN(8) != 0 {
		outlier = ejecting()
	}
	if random.IntN(3) == 0 {
		check = checked().HealthCheck
	}
	var ports []uint16
	for p := range uint16(3) {
		if random.IntN(4) != 0 {
			ports = append(ports, 9000+p)
		}
	}
	c.say(view, outlier, check, ports...)
}
