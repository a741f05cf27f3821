// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"encoding/json"
	"flag"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/envoytest"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/suite"
)

var (
	clusterCount = flag.Int("clusters", 12, "how many random clusters Envoy and XLB balance")
	requests     = flag.Int("requests", 600, "requests to each")
	seed         = flag.Uint64("seed", 1, "of the clusters, fixed: a test that fails fails again; 0 draws one")
)

func TestSharesAreEnvoys(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", *seed, *seed)
	requireShares(t, servers(t, 24, 0))
}

// TestAddressesInSeveralPlacesAreSharedAsInEnvoy has each address in up to three places of a cluster: in one locality, in several, and in several
// priorities, with weights and health of their own.
func TestAddressesInSeveralPlacesAreSharedAsInEnvoy(t *testing.T) {
	requireShares(t, slices.Concat(slices.Repeat([][]netip.AddrPort{servers(t, 8, 0)}, 3)...))
}

// requireShares compares random clusters at these addresses.
func requireShares(t *testing.T, addresses []netip.AddrPort) {
	t.Helper()
	listener := envoytest.FreeAddress(t)
	list, _ := Clusters(*seed, *clusterCount, addresses)
	b := bootstrap(listener, list)
	// It listens when that connection is there.
	_ = envoytest.Start(t, marshal(t, b)).Dial(t, listener)
	x := newBalancer(t, b)
	client := &http.Client{Timeout: time.Minute}
	partial := 0
	for i := range x.image.Clusters {
		c := x.image.Clusters[i]
		want := sharesOf(c)
		if len(want) > 1 {
			partial++
		}
		if why := Differ(ask(t, client, listener, c.Key.Name, *requests), want); why != "" {
			text, _ := json.Marshal(list[i])
			t.Errorf("Envoy does not share %s as XLB does: %s\n%s", c.Key.Name, why, text)
		}
		if why := Differ(x.pick(c, 10**requests), want); why != "" {
			text, _ := json.Marshal(list[i])
			t.Errorf("the picker does not share %s as the groups ask: %s\n%s", c.Key.Name, why, text)
		}
	}
	if partial < *clusterCount/2 {
		t.Errorf("%d clusters have several endpoints to choose from, want at least %d", partial, *clusterCount/2)
	}
}

// sharesOf are what a compiled cluster's endpoints are due, those that fail included.
func sharesOf(c *clusters.Cluster) map[netip.AddrPort]float64 {
	root := c.Root(nil)
	shares, left := map[netip.AddrPort]float64{}, 1.0
	for i, share := range root.Shares(len(c.Endpoints)) {
		if share > 0 {
			shares[c.Endpoints[i].Address] = share
			left -= share
		}
	}
	if left > 1e-9 {
		shares[Failed] = left
	}
	return shares
}

// balancer is XLB's state without a kernel.
type balancer struct {
	t      *testing.T
	config *model.Config
	image  *compile.Image
	r      *reconcile.Reconciler
	picker *balance.Picker
	shared *maps.Shared
	// random draws the numbers that choices take.
	random *rand.Rand
}

// drawn is random, from the suite's seed.
func drawn(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(suite.Seed(t), 0))
}

func newBalancer(t *testing.T, bootstrap object) *balancer {
	t.Helper()
	text, err := json.Marshal(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("bootstrap.json", text)
	if err != nil {
		t.Fatal(err)
	}
	return newBalancerOf(t, cfg)
}

func newBalancerOf(t *testing.T, cfg *model.Config) *balancer {
	t.Helper()
	sizes := maps.Sizes{
		Listeners: 4, RouteTables: 4, VHosts: 8, Routes: 1 << 12, Splits: 1 << 10, Rewrites: 1 << 10, RetrySets: 8, Tuples: 1, BucketLists: 1, Automata: 1, Cells: 1, Accepts: 1, AcceptedValues: 1,
		Schedules: 1 << 18, Clusters: 1 << 10, Groups: 1 << 14, Endpoints: 1 << 14,
	}
	shared := maps.NewHeapShared(sizes)
	b := &balancer{t: t, config: cfg, r: reconcile.New(mapstest.NewFakeConfig(sizes, nil), shared, slog.New(slog.DiscardHandler)), picker: balance.New(shared), shared: shared, random: drawn(t)}
	b.image, _ = compile.Compile(cfg)
	if _, err := b.r.Apply(b.image); err != nil {
		t.Fatal(err)
	}
	return b
}

// pick chooses without load, and counts.
func (b *balancer) pick(c *clusters.Cluster, n int) map[netip.AddrPort]int {
	addresses := map[uint32]netip.AddrPort{}
	for _, e := range b.r.Endpoints() {
		addresses[e.Index] = e.Address
	}
	index, _ := b.r.ClusterIndex(model.SharedCluster(c.Key.Name))
	counts := map[netip.AddrPort]int{}
	for range n {
		e, ok := b.picker.Pick(index, b.random.Uint64(), nil)
		if !ok {
			counts[Failed]++
			continue
		}
		counts[addresses[e]]++
		b.picker.Done(e)
	}
	return counts
}
