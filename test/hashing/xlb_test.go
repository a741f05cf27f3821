// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/envoytest"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/proxytest"
)

// parse reads a configuration as XLB does.
func parse(t testing.TB, bootstrap object) *model.Config {
	t.Helper()
	cfg, err := config.Parse("bootstrap.json", marshal(t, bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startXLB serves the listeners of a configuration with the slow path, at addresses of its own. Endpoints are picked as the daemon picks
// them, from the state that it shares with the kernel, but without a kernel.
func startXLB(t testing.TB, cfg *model.Config) *peer {
	t.Helper()
	return &peer{t: t, addresses: proxytest.Start(t, cfg, newPicker(t, cfg)), conns: map[int]*envoytest.Conn{}}
}

// picker implements slowpath.Balancer over maps in memory.
type picker struct {
	*balance.Picker
	reconciler *reconcile.Reconciler
	endpoints  map[uint32]netip.AddrPort
}

func newPicker(t testing.TB, cfg *model.Config) picker {
	t.Helper()
	sizes := maps.Sizes{
		Clusters: 256, Groups: 1024, Endpoints: 4096, Schedules: 1 << 18, Listeners: 8, RouteTables: 8, VHosts: 1 << 12, Routes: 1 << 12, Splits: 1 << 12, Rewrites: 1 << 10, RetrySets: 8, Automata: 64,
		Cells: 1 << 12, Accepts: 64, AcceptedValues: 64, Tuples: 64, BucketLists: 64,
	}
	shared := maps.NewHeapShared(sizes)
	reconciler := reconcile.New(mapstest.NewFakeConfig(sizes, nil), shared, slog.New(slog.DiscardHandler))
	image, _ := compile.Compile(cfg)
	if _, err := reconciler.Apply(image); err != nil {
		t.Fatal(err)
	}
	p := picker{balance.New(shared), reconciler, map[uint32]netip.AddrPort{}}
	for _, e := range reconciler.Endpoints() {
		p.endpoints[e.Index] = e.Address
	}
	return p
}

// Pick implements slowpath.Balancer.
func (p picker) Pick(cluster *model.Cluster, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	entry, ok := p.reconciler.SubsetIndex(model.SharedCluster(cluster.Name), criteria)
	if !ok {
		return nil, false
	}
	index, ok := p.Picker.Pick(entry, hash, func(e uint32) bool { return skip(p.endpoints[e]) })
	return picked{p, index}, ok
}

type picked struct {
	picker
	index uint32
}

func (p picked) Address() netip.AddrPort { return p.endpoints[p.index] }

func (p picked) Done(slowpath.Outcome) { p.Picker.Done(p.index) }
