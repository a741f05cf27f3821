// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/generationtest"
)

// balancing is a selector without a kernel.
type balancing struct {
	*Selector
	t      *testing.T
	kernel *generationtest.Kernel
	// now is what is in force.
	now atomic.Pointer[generation.Generation]
	// switching is held while that changes.
	switching sync.RWMutex
}

func newBalancing(t *testing.T, cfg *model.Config) *balancing {
	b := &balancing{t: t, kernel: generationtest.NewKernel()}
	b.Selector = New(Config{
		Generation: b.now.Load, Picker: balance.New(b.kernel.Shared), Shared: b.kernel.Shared, RetryRoot: b.kernel.RetryRoot,
		AwaitSwitch: func() {
			b.switching.RLock()
			b.switching.RUnlock() //nolint:staticcheck // the wait is all
		},
		Done:     func(uint32, slowpath.Outcome) {},
		Answered: func(uint32, workload.ID) {},
	})
	b.now.Store(generation.Empty())
	b.use(cfg)
	return b
}

// use puts a configuration in force.
func (b *balancing) use(cfg *model.Config) {
	b.t.Helper()
	b.now.Store(b.kernel.Next(b.t, b.now.Load(), cfg))
}

func (b *balancing) chosen(pick func() (slowpath.ChosenEndpoint, bool)) string {
	b.t.Helper()
	return b.kernel.Chosen(b.t, pick)
}

// A request whose route has been replaced while it was on its way finds, of its criteria, no subset any more, and still gets an endpoint that
// they select in the configuration in force.
func TestRequestsOfReplacedRoutesKeepToTheirSubset(t *testing.T) {
	cluster := generationtest.Staged(model.AnyEndpoint, "prod", "prod", "canary", "dev")
	b := newBalancing(t, generationtest.WithRoutes(cluster, generationtest.Stage("prod"), generationtest.Stage("canary")))
	of := func(criteria model.Metadata, skip func(netip.AddrPort) bool) string {
		t.Helper()
		return b.chosen(func() (slowpath.ChosenEndpoint, bool) {
			return b.Pick(b.now.Load().Cluster(model.SharedCluster("web")), criteria, 0, skip)
		})
	}
	require := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	require("routes ask for canaries", of(generationtest.Stage("canary"), generationtest.Anywhere), "3")

	// No route asks for anything; then there is another canary, and none.
	b.use(generationtest.WithRoutes(generationtest.Staged(model.AnyEndpoint, "prod", "prod", "canary", "dev"), ""))
	require("no route asks any more", of(generationtest.Stage("canary"), generationtest.Anywhere), "3")
	require("nor ever has", of(generationtest.Stage("dev"), generationtest.Anywhere), "4")
	require("without criteria", of("", generationtest.Anywhere), "1 2 3 4")
	require("all that fits is to be skipped", of(generationtest.Stage("canary"), func(a netip.AddrPort) bool { return a.Port() == 3 }), "none")
	require("some is", of(generationtest.Stage("prod"), func(a netip.AddrPort) bool { return a.Port() == 1 }), "2")
	require("nothing fits, any will do", of(generationtest.Stage("test"), generationtest.Anywhere), "1 2 3 4")
	b.use(generationtest.WithRoutes(generationtest.Staged(model.AnyEndpoint, "prod", "prod", "dev", "canary"), ""))
	require("another one fits now", of(generationtest.Stage("canary"), generationtest.Anywhere), "4")
	b.use(generationtest.WithRoutes(generationtest.Staged(model.DefaultSubset, "prod", "prod", "canary", "dev"), ""))
	require("nothing fits, the default does", of(generationtest.Stage("test"), generationtest.Anywhere), "1 2")
	b.use(generationtest.WithRoutes(generationtest.Staged(model.NoFallback, "prod", "prod", "canary", "dev"), ""))
	require("nothing fits, nothing does", of(generationtest.Stage("test"), generationtest.Anywhere), "none")

	for index, e := range generationtest.Endpoints(b.now.Load()) {
		if e.Address.Port() == 1 {
			atomic.OrUint32(&b.kernel.Shared.Endpoints[index].Flags, uint32(maps.EndpointDown))
		}
	}
	require("one is out of service", of(generationtest.Stage("prod"), generationtest.Anywhere), "2")

	// Without subsets criteria mean nothing.
	plain := generationtest.Staged(model.NoFallback, "prod", "canary")
	plain.Subsets = nil
	b.use(generationtest.WithRoutes(plain, ""))
	require("the cluster has no subsets any more, and the first is still down", of(generationtest.Stage("canary"), generationtest.Anywhere), "2")
}

func TestRetriesGoToOtherPriorities(t *testing.T) {
	c := generationtest.Staged(model.AnyEndpoint, "prod", "prod", "canary", "prod", "canary")
	for i, priority := range []uint32{0, 0, 0, 1, 2} {
		c.Endpoints[i].Priority = priority
	}
	b := newBalancing(t, generationtest.WithRoutes(c, "", generationtest.Stage("canary")))
	tried := func(r slowpath.RetryBalancer, ports ...uint16) slowpath.RetryBalancer {
		for _, port := range ports {
			for _, e := range generationtest.Endpoints(b.now.Load()) {
				if e.Address.Port() == port {
					r.Tried(b.Endpoint(*e))
				}
			}
		}
		return r
	}
	tests := []struct {
		name      string
		criteria  model.Metadata
		frequency uint32
		tried     []uint16
		skip      uint16
		want      string
	}{
		{"none has been tried", "", 1, nil, 0, "none"},
		{"the first", "", 1, []uint16{1}, 0, "4"},
		{"the first two", "", 1, []uint16{1, 4}, 0, "5"},
		{"all: it begins anew", "", 1, []uint16{1, 4, 5}, 0, "1 2 3"},
		{"once, where twice counts", "", 2, []uint16{1}, 0, "none"},
		{"twice", "", 2, []uint16{1, 2}, 0, "4"},
		{"three times", "", 2, []uint16{1, 2, 4}, 0, "4"},
		{"nothing else there", "", 1, []uint16{1}, 4, "none"},
		{"of a subset", generationtest.Stage("canary"), 1, []uint16{3}, 0, "5"},
		{"of a subset that no route asks for", generationtest.Stage("prod"), 1, []uint16{1}, 0, "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tried(b.Retrying(model.SharedCluster("web"), tt.criteria, tt.frequency), tt.tried...)
			skip := func(a netip.AddrPort) bool { return a.Port() == tt.skip }
			if got := b.chosen(func() (slowpath.ChosenEndpoint, bool) { return r.Pick(skip) }); got != tt.want {
				t.Errorf("retries go to %s, want %s", got, tt.want)
			}
		})
	}
}
