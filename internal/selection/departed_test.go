// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/generationtest"
)

// from is how a request chooses that has found its cluster in the configuration in force now.
func (b *balancing) from(criteria model.Metadata) (choose func(skip func(netip.AddrPort) bool) string) {
	found := b.now.Load().Cluster(model.SharedCluster("web"))
	return func(skip func(netip.AddrPort) bool) string {
		b.t.Helper()
		return b.chosen(func() (slowpath.ChosenEndpoint, bool) { return b.Pick(found, criteria, 0, skip) })
	}
}

func without(port uint16) func(netip.AddrPort) bool {
	return func(a netip.AddrPort) bool { return a.Port() == port }
}

func TestRequestsOfAClusterThatHasGoneKeepToItsEndpoints(t *testing.T) {
	tests := []struct {
		name     string
		change   func(c *model.Cluster)
		criteria model.Metadata
		skip     func(netip.AddrPort) bool
		want     string
	}{
		{"any", func(*model.Cluster) {}, "", generationtest.Anywhere, "1 2 3 4"},
		{"of a subset", func(*model.Cluster) {}, generationtest.Stage("canary"), generationtest.Anywhere, "3"},
		{"all that fits was tried", func(*model.Cluster) {}, generationtest.Stage("canary"), without(3), "none"},
		{"some was tried", func(*model.Cluster) {}, generationtest.Stage("prod"), without(1), "2"},
		{"the first priority", func(c *model.Cluster) { c.Endpoints[0].Priority, c.Endpoints[1].Priority = 2, 1 }, generationtest.Stage("prod"), generationtest.Anywhere, "2"},
		{"healthy before others", func(c *model.Cluster) { c.Endpoints[0].Health = model.Draining }, generationtest.Stage("prod"), generationtest.Anywhere, "2"},
		{"degraded before unhealthy", func(c *model.Cluster) {
			c.Endpoints[0].Health, c.Endpoints[1].Health = model.Unhealthy, model.Degraded
		}, generationtest.Stage("prod"), generationtest.Anywhere, "2"},
		{"where there is nothing better", func(c *model.Cluster) { c.Endpoints[2].Health = model.Unhealthy }, generationtest.Stage("canary"), generationtest.Anywhere, "3"},
		{"without subsets", func(c *model.Cluster) { c.Subsets = nil }, generationtest.Stage("canary"), generationtest.Anywhere, "1 2 3 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster := generationtest.Staged(model.NoFallback, "prod", "prod", "canary", "dev")
			cluster.Subsets.Fallback = model.AnyEndpoint
			tt.change(cluster)
			b := newBalancing(t, generationtest.WithRoutes(cluster, ""))
			choose := b.from(tt.criteria)
			b.use(&model.Config{})
			if got := choose(tt.skip); got != tt.want {
				t.Errorf("requests go to %s, want %s", got, tt.want)
			}
		})
	}
}

// Another cluster may have the same endpoints, and the indices of the first one's.
func TestRequestsOfAClusterThatWasReplacedDoNotFail(t *testing.T) {
	named := func(name string, ports ...uint16) *model.Config {
		cfg := generationtest.PortsOf(1, ports...)
		cfg.Clusters[0].Name = name
		cfg.Listeners[0].Routes.VirtualHosts[0].Routes[0].Clusters[0].Name = name
		return cfg
	}
	b := newBalancing(t, named("web", 1, 2))
	choose := b.from("")
	for n := range 5 {
		b.use(named([]string{"shop", "bank"}[n%2], 3, 4))
		if got := choose(generationtest.Anywhere); got != "1 2" {
			t.Errorf("requests go to %s, want 1 2", got)
		}
	}
	if got := b.chosen(func() (slowpath.ChosenEndpoint, bool) {
		return b.Pick(b.now.Load().Cluster(model.SharedCluster("shop")), "", 0, generationtest.Anywhere)
	}); got != "3 4" {
		t.Errorf("later requests go to %s, want 3 4", got)
	}
}

func TestASessionsEndpointIsFoundInAClusterThatHasGone(t *testing.T) {
	cluster := generationtest.Staged(model.AnyEndpoint, "prod", "prod")
	cluster.Endpoints[1].Health = model.Draining
	b := newBalancing(t, generationtest.WithRoutes(cluster, ""))
	found := b.now.Load().Cluster(model.SharedCluster("web"))
	address := clusterAddress(found, 1)
	b.use(&model.Config{})
	e, health, ok := b.Named(found, address)
	if !ok || e.Address().String() != address || health != model.Draining {
		t.Errorf("found %v, %s, %t", e, health, ok)
	}
	if _, _, ok := b.Named(found, "192.0.2.99:1"); ok {
		t.Error("an address that the cluster never had was found")
	}
}

func clusterAddress(c *model.Cluster, endpoint int) string {
	return c.Endpoints[endpoint].Address.String()
}
