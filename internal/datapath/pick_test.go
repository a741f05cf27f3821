// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

const noEndpoint = 1<<32 - 1

// chooser is the kernel's choice of an endpoint, by itself.
type chooser struct {
	t       testing.TB
	d       *Datapath
	program *ebpf.Program
	r       *reconcile.Reconciler
	// first is the index of the first of so many clusters in a row.
	first, clusters uint32
}

func newChooser(t testing.TB) *chooser {
	t.Helper()
	d, err := Load(Options{FastPath: true})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := loadXlb()
	if err != nil {
		t.Fatal(err)
	}
	var loaded struct {
		Program *ebpf.Program `ebpf:"xlb_selftest_pick"`
	}
	m := &d.objects.xlbMaps
	shared := map[string]*ebpf.Map{
		"clusters": m.Clusters, "groups": m.Groups, "endpoints": m.Endpoints, "schedules": m.Schedules, "hash_places": m.HashPlaces,
	}
	if err := spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := loaded.Program.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &chooser{t: t, d: d, program: loaded.Program, r: reconcile.New(d.Config, d.Shared, slog.New(slog.DiscardHandler))}
}

// policies are those that the kernel serves, by what makes a cluster of them.
var policies = []struct {
	name string
	set  func(*model.Cluster)
	// busy has each endpoint a request under way; then the kernel looks at all of up to MaxScan, and chooses none of more.
	busy bool
}{
	{"ROUND_ROBIN", func(*model.Cluster) {}, false},
	{"ROUND_ROBIN, weighted", weigh, false},
	{"RANDOM", func(c *model.Cluster) { c.Policy = model.Random }, false},
	{"LEAST_REQUEST, 2 choices", func(c *model.Cluster) { c.Policy = model.LeastRequest }, false},
	{"LEAST_REQUEST, weighted", func(c *model.Cluster) { c.Policy = model.LeastRequest; weigh(c) }, false},
	{"LEAST_REQUEST, full scan", scan, false},
	{"LEAST_REQUEST, full scan, all busy", scan, true},
	{"RING_HASH", func(c *model.Cluster) { c.Policy, c.Hashing = model.RingHash, model.DefaultHashing() }, false},
	{"MAGLEV", func(c *model.Cluster) { c.Policy, c.Hashing = model.Maglev, model.DefaultHashing() }, false},
}

func scan(c *model.Cluster) { c.Policy, c.FullScan = model.LeastRequest, true }

// weigh gives every third endpoint a weight of 2.
func weigh(c *model.Cluster) {
	for i := range c.Endpoints {
		c.Endpoints[i].Weight = 1 + uint32(i%3/2)
	}
}

// apply makes the maps hold so many clusters of so many endpoints.
func (c *chooser) apply(clusters, endpoints int, set func(*model.Cluster)) {
	c.t.Helper()
	cfg := &model.Config{}
	for i := range clusters {
		cluster := &model.Cluster{Name: fmt.Sprintf("c%d", i)}
		for j := range endpoints {
			n := i*endpoints + j
			address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 92, byte(n >> 8), byte(n)}), 8000)
			cluster.Endpoints = append(cluster.Endpoints, model.Endpoint{Address: address, Weight: 1})
		}
		set(cluster)
		cfg.Clusters = append(cfg.Clusters, cluster)
	}
	// Anything before it gives its indices up first.
	for _, cfg := range []*model.Config{{}, {}, cfg} {
		image, _ := compile.Compile(cfg)
		if _, err := c.r.Apply(image); err != nil {
			c.t.Fatal(err)
		}
		for _, e := range c.r.Endpoints() {
			c.r.ReleaseEndpoint(e.Index)
		}
	}
	c.first, _ = c.r.ClusterIndex(model.SharedCluster("c0"))
	c.clusters = uint32(clusters)
}

func (c *chooser) packet() []byte {
	packet := binary.NativeEndian.AppendUint32(maps.Packet(nil), c.first)
	return binary.NativeEndian.AppendUint32(packet, c.clusters)
}

func (c *chooser) choose() uint32 {
	c.t.Helper()
	e, err := c.program.Run(&ebpf.RunOptions{Data: c.packet()})
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// took is the least of a few averages: what other work on the machine adds is not of interest.
func (c *chooser) took(rounds, picks int) time.Duration {
	c.t.Helper()
	least := time.Hour
	for range rounds {
		_, took, err := c.program.Benchmark(c.packet(), picks, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		least = min(least, took)
	}
	return least
}

// TestThousandsOfEndpointsCostAsMuchAsTen bounds what a choice takes. It finds larger tables less often in the processor's caches, hence the factor; a
// look at every endpoint would take hundreds of times as long.
func TestThousandsOfEndpointsCostAsMuchAsTen(t *testing.T) {
	const factor, picks = 6, 20_000
	c := newChooser(t)
	for _, p := range policies {
		if p.busy {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			c.apply(1, 10, p.set)
			c.mustServe(t, 1, 10)
			few := c.took(5, picks)
			c.apply(1, 10_000, p.set)
			c.mustServe(t, 1, 10_000)
			many := c.took(5, picks)
			t.Logf("10 endpoints %s, 10,000 %s: %.1f times", few, many, float64(many)/float64(few))
			if many > factor*few {
				t.Errorf("a choice takes %s among 10,000 endpoints, more than %d times the %s among 10", many, factor, few)
			}
		})
	}
}

// mustServe demands that each choice finds an endpoint of the cluster, and not always the same.
func (c *chooser) mustServe(t *testing.T, clusters, endpoints int) {
	t.Helper()
	seen := map[uint32]bool{}
	for range 100 {
		e := c.choose()
		if e == noEndpoint {
			t.Fatalf("no endpoint of %d x %d was found", clusters, endpoints)
		}
		seen[e] = true
	}
	if all := clusters * endpoints; len(seen) < min(all, 10)/2 {
		t.Errorf("100 choices found %d endpoints of %d", len(seen), all)
	}
}

// setBusy gives each endpoint so many requests under way.
func (c *chooser) setBusy(requests uint32) {
	for _, e := range c.r.Endpoints() {
		c.d.Shared.Endpoints[e.Index].Outstanding = requests
	}
}

func TestAScanOfTooManyThatAreBusyIsLeftToUserSpace(t *testing.T) {
	c := newChooser(t)
	for n, want := range map[int]bool{int(maps.MaxScan): true, int(maps.MaxScan) + 1: false} {
		c.apply(1, n, scan)
		c.mustServe(t, 1, n)
		c.setBusy(1)
		if got := c.choose() != noEndpoint; got != want {
			t.Errorf("one of %d busy endpoints was chosen: %t, want %t", n, got, want)
		}
		c.setBusy(0)
	}
}

func TestAScanFindsTheOneThatIsIdle(t *testing.T) {
	const n = 20
	c := newChooser(t)
	c.apply(1, n, scan)
	c.setBusy(3)
	list := c.r.Endpoints()
	c.d.Shared.Endpoints[list[7].Index].Outstanding = 0
	for range 200 {
		if e := c.choose(); e != list[7].Index {
			t.Fatalf("endpoint %d was chosen, want the idle one, %d", e, list[7].Index)
		}
	}
}

// TestTheKernelChoosesInTheClusterWhileItsManyEndpointsChange has the kernel choose without a pause while schedules are edited.
func TestTheKernelChoosesInTheClusterWhileItsManyEndpointsChange(t *testing.T) {
	c := newChooser(t)
	clusters := func(missing int) *compile.Image {
		cfg := &model.Config{}
		for net, name := range []string{"c0", "c1"} {
			cluster := &model.Cluster{Name: name}
			for i := range 500 {
				if i%50 != missing*(net+1)%50 {
					address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 92 + byte(net), byte(i >> 8), byte(i)}), 8000)
					cluster.Endpoints = append(cluster.Endpoints, model.Endpoint{Address: address, Weight: 1})
				}
			}
			cfg.Clusters = append(cfg.Clusters, cluster)
		}
		image, _ := compile.Compile(cfg)
		return image
	}
	apply := func(missing int) {
		if _, err := c.r.Apply(clusters(missing)); err != nil {
			t.Fatal(err)
		}
	}
	apply(0)
	c.first, _ = c.r.ClusterIndex(model.SharedCluster("c0"))
	c.clusters = 1
	stop, stopped := make(chan struct{}), make(chan [2]int)
	go func() {
		picks, none := 0, 0
		for {
			select {
			case <-stop:
				stopped <- [2]int{picks, none}
				return
			default:
			}
			e, err := c.program.Run(&ebpf.RunOptions{Data: c.packet()})
			picks++
			if err != nil || e == noEndpoint {
				none++
			}
		}
	}()
	for missing := range 40 {
		apply(missing)
		for _, e := range c.r.Endpoints() {
			c.r.ReleaseEndpoint(e.Index)
		}
	}
	close(stop)
	n := <-stopped
	t.Logf("%d choices", n[0])
	if n[1] > 0 || n[0] < 1000 {
		t.Errorf("%d choices, %d of them without an endpoint, want at least 1,000 and none", n[0], n[1])
	}
}

// BenchmarkPick shows the kernel's cost of a choice.
func BenchmarkPick(b *testing.B) {
	c := newChooser(b)
	for _, p := range policies {
		for _, size := range []struct{ clusters, endpoints int }{{1, 1}, {1, 10}, {1, 100}, {1, 1000}, {1, 10_000}, {1000, 10}} {
			if p.busy && size.endpoints > int(maps.MaxScan) {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dx%d", p.name, size.clusters, size.endpoints), func(b *testing.B) {
				c.apply(size.clusters, size.endpoints, p.set)
				if p.busy {
					c.setBusy(1)
				}
				if c.choose() == noEndpoint {
					b.Skip("not in the kernel: the tables of so many clusters have no room there")
				}
				took := c.took(7, 100_000)
				for b.Loop() { // the kernel has counted
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(took), "ns/pick")
			})
		}
	}
}
