// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"

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
	index, ok := g.r.ClusterIndex(name)
	if !ok {
		g.t.Fatalf("no cluster %q", name)
	}
	return index
}

// A request that is in flight while its cluster is taken away ends as that cluster's, however many reloads come before its end: its index is no other's by
// then, and free afterwards.
func TestIndexOfAClusterIsReusedOnlyAfterItsLastRequest(t *testing.T) {
	g := newRig(t)
	g.mustApply(named("web"))
	sh, old := g.kernel.sh, g.mustHaveIndex("web")
	number := sh.ClusterNumber(old)
	if !sh.EnterCluster(old, number, 9) {
		t.Fatal("not counted")
	}
	for i := range 10 {
		name := fmt.Sprint("other-", i)
		g.mustApply(named(name))
		if index := g.mustHaveIndex(name); index == old {
			t.Fatalf("reload %d: cluster %s has index %d, for which a request is counted", i, name, old)
		}
	}
	sh.LeaveCluster(old, number)
	reused := false
	for i := range 3 {
		name := fmt.Sprint("last-", i)
		g.mustApply(named(name))
		reused = reused || g.mustHaveIndex(name) == old
	}
	if !reused {
		t.Errorf("index %d is not given to anybody any more", old)
	}
	if used := g.inUse()["cluster indices"]; used != 1 {
		t.Errorf("%d indices in use, want that of the last cluster alone", used)
	}
}

// Requests that never end use up no indices.
func TestIndicesOfBusyClustersAreTakenWhereThereAreNoOthers(t *testing.T) {
	sizes := testSizes
	sizes.Clusters = 3
	g := newRigOf(t, sizes)
	for i := range 10 {
		name := fmt.Sprint("web-", i)
		g.mustApply(named(name))
		index := g.mustHaveIndex(name)
		if sh := g.kernel.sh; sh.Clusters[index].Active != 0 || !sh.EnterCluster(index, sh.ClusterNumber(index), 1) {
			t.Fatalf("cluster %s at index %d begins with %d in flight, want none", name, index, sh.Clusters[index].Active)
		}
	}
}
