// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// named is a configuration of one cluster.
func named(name string) *model.Config {
	cfg := single(endpointOn(9000, 1))
	cfg.Clusters[0].Name = name
	cfg.Listeners[0].Routes.VirtualHosts[0].Routes[0].Clusters[0].Name = name
	return cfg
}

func (g *rig) mustHaveIndex(name string) uint32 {
	g.t.Helper()
	index, ok := g.r.ClusterIndex(model.SharedCluster(name))
	if !ok {
		g.t.Fatalf("no cluster %q", name)
	}
	return index
}

// Requests that never end use up no indices, and the cluster that has their index next begins with none in flight.
func TestAClusterBeginsWithNoRequestInFlight(t *testing.T) {
	sizes := testSizes
	sizes.Clusters = 3
	g := newRigOf(t, sizes)
	for i := range 10 {
		name := fmt.Sprint("web-", i)
		g.mustApply(named(name))
		sh := g.kernel.sh
		owner := maps.LoadOwner{Account: 1, Cluster: sh.ClusterNumber(g.mustHaveIndex(name))}
		if _, ok := sh.EnterLoad(owner, 1); !ok {
			t.Fatalf("cluster %s begins with %d in flight, want none", name, sh.ActiveLoad(owner))
		}
	}
	if used := g.inUse()["cluster indices"]; used > 2 {
		t.Errorf("%d indices in use, want that of the last cluster, and of one that programs may still use", used)
	}
}
