// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/suite"
)

// changing makes a configuration of parts that mostly stay.
type changing struct {
	*rand.Rand
	clusters  []*model.Cluster
	listeners []*model.Listener
	local     *model.Local
}

func (c *changing) endpoints() (list []model.Endpoint) {
	for port := range uint16(4) {
		address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 9000+port)
		if c.IntN(6) == 0 {
			address = netip.AddrPortFrom(netip.IPv6Loopback(), 9000+port)
		}
		if c.IntN(2) == 0 {
			list = append(list, model.Endpoint{
				Address: address, Weight: 1 + c.Uint32N(3), Placement: model.Placement{Locality: model.Locality{Zone: string(rune('a' + c.IntN(2)))}},
				Metadata: []model.Metadata{"", `{"v":1}`, `{"v":2}`}[c.IntN(3)],
			})
		}
	}
	return list
}

func (c *changing) cluster(name string) *model.Cluster {
	out := &model.Cluster{Name: name, Policy: model.Policy(c.IntN(5)), ChoiceCount: 2 + c.Uint32N(99), Endpoints: c.endpoints()}
	if out.Policy.Hashes() {
		out.Hashing = model.DefaultHashing()
	}
	if c.IntN(3) == 0 {
		out.Subsets = &model.Subsets{Selectors: []model.SubsetSelector{{Keys: []string{"v"}}}}
	}
	return out
}

func (c *changing) listener(name string) *model.Listener {
	cluster := func() []model.WeightedCluster {
		return []model.WeightedCluster{{Name: fmt.Sprintf("c%d", c.IntN(6)), Weight: 1, Criteria: []model.Metadata{"", `{"v":1}`, `{"v":2}`}[c.IntN(3)]}}
	}
	l := &model.Listener{Name: name, Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(80+c.IntN(1000))), Routes: &model.RouteTable{}}
	if c.IntN(3) == 0 {
		l.TCP = &model.TCPProxy{Clusters: cluster(), ConnectAttempts: 1}
		return l
	}
	vh := &model.VirtualHost{Name: "vh", Domains: []string{"*"}}
	for range c.IntN(3) {
		path := matcher.PathMatch{Value: fmt.Sprintf("/%d", c.IntN(9))}
		if c.IntN(3) == 0 {
			path = matcher.PathMatch{Kind: matcher.PathRegex, Value: fmt.Sprintf("/%d[a-c]+/.*", c.IntN(9))}
		}
		vh.Routes = append(vh.Routes, &model.Route{Path: path, Clusters: cluster()})
	}
	l.Routes.VirtualHosts = []*model.VirtualHost{vh}
	return l
}

// step changes a little.
func (c *changing) step() *model.Config {
	c.clusters, c.listeners = slices.Clone(c.clusters), slices.Clone(c.listeners)
	for range 1 + c.IntN(2) {
		switch at := c.IntN(len(c.clusters) + 1); c.IntN(8) {
		case 0:
			c.clusters = slices.DeleteFunc(c.clusters, func(one *model.Cluster) bool { return one.Name == fmt.Sprintf("c%d", c.IntN(6)) })
		case 1, 2:
			name := fmt.Sprintf("c%d", c.IntN(6))
			if !slices.ContainsFunc(c.clusters, func(one *model.Cluster) bool { return one.Name == name }) {
				c.clusters = slices.Insert(c.clusters, at, c.cluster(name))
			}
		case 3:
			c.Shuffle(len(c.clusters), func(i, j int) { c.clusters[i], c.clusters[j] = c.clusters[j], c.clusters[i] })
		case 4:
			if at := c.IntN(5); at < len(c.listeners) {
				c.listeners[at] = c.listener(c.listeners[at].Name)
			} else {
				c.listeners = []*model.Listener{c.listener("l1"), c.listener("l2"), c.listener("l3"), c.listener("l4")}
			}
		case 5:
			c.local = nil
			if own := slices.IndexFunc(c.clusters, func(one *model.Cluster) bool { return one.Name == "own" }); own >= 0 && c.IntN(2) == 0 {
				c.local = &model.Local{Cluster: "own", Locality: model.Locality{Zone: string(rune('a' + c.IntN(2)))}}
			}
		default:
			if at < len(c.clusters) {
				c.clusters[at] = c.cluster(c.clusters[at].Name)
			}
		}
	}
	return &model.Config{Clusters: c.clusters, Listeners: c.listeners, Local: c.local}
}

func TestWhatIsCompiledAgainAndAgainIsWhatIsCompiledOnce(t *testing.T) {
	seed, tables := suite.Seed(t), 0
	for round := range uint64(60) {
		c := &changing{Rand: rand.New(rand.NewPCG(seed, round))}
		c.clusters = []*model.Cluster{c.cluster("own")}
		c.clusters[0].Policy = model.RoundRobin
		compiler, reused := NewCompiler(), 0
		var before *Image
		for range 50 {
			cfg := c.step()
			got, notes := compiler.Compile(cfg)
			want, wanted := Compile(cfg)
			if diff := gocmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Prefix{}), gocmp.AllowUnexported(clusters.Zones{})); diff != "" {
				t.Fatalf("round %d: image (-want +got):\n%s", round, diff)
			}
			if diff := gocmp.Diff(wanted, notes, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("round %d: notes (-want +got):\n%s", round, diff)
			}
			if before != nil && got.SameListeners(before) {
				reused++
			} else if before != nil {
				tables += takenOver(before, got)
			}
			before = got
		}
		if reused < 5 {
			t.Errorf("round %d: listeners were reused %d times of 50, want more", round, reused)
		}
	}
	if tables < 100 {
		t.Errorf("%d tables were taken over where other listeners had changed, want more", tables)
	}
}

// takenOver counts the tables of an image that are those of another one.
func takenOver(before, now *Image) (n int) {
	for i := range now.Listeners {
		if t := now.Listeners[i].Table; t != nil && slices.ContainsFunc(before.Listeners, func(l Listener) bool { return l.Table == t }) {
			n++
		}
	}
	return n
}

func TestAChangeOfOneListenerLeavesTheOthersAlone(t *testing.T) {
	cfg := &model.Config{}
	for i := range 3 {
		one := manyClusters(20)
		view := model.View{Number: uint32(i), Name: fmt.Sprintf("v%d", i)}
		for _, c := range one.Clusters {
			c.View = view
		}
		one.Listeners[0].View = view
		cfg.Clusters, cfg.Listeners = append(cfg.Clusters, one.Clusters...), append(cfg.Listeners, one.Listeners...)
	}
	compiler := NewCompiler()
	before, _ := compiler.Compile(cfg)
	changed := *cfg
	changed.Listeners = slices.Clone(cfg.Listeners)
	other := *cfg.Listeners[1]
	changed.Listeners[1] = &other
	after, _ := compiler.Compile(&changed)
	for i := range after.Listeners {
		if same := after.Listeners[i].Table == before.Listeners[i].Table; same != (i != 1) {
			t.Errorf("the table of listener %d is the one of before: %t", i, same)
		}
	}
}

func TestAChangeOfOneClusterLeavesTheOthersAlone(t *testing.T) {
	cfg := manyClusters(100)
	compiler := NewCompiler()
	before, _ := compiler.Compile(cfg)
	cfg.Clusters = slices.Clone(cfg.Clusters)
	changed := *cfg.Clusters[50]
	changed.Endpoints = changed.Endpoints[1:]
	cfg.Clusters[50] = &changed
	after, _ := compiler.Compile(cfg)
	if !after.SameListeners(before) {
		t.Error("the listeners were compiled again")
	}
	for i := range after.Clusters {
		if same := after.Clusters[i] == before.Clusters[i]; same != (i != 50) {
			t.Errorf("cluster %d is the one of before: %t", i, same)
		}
	}
}

// manyClusters have ten endpoints, a host and a route each.
func manyClusters(n int) *model.Config {
	rt, cfg := &model.RouteTable{}, &model.Config{}
	for i := range n {
		c := &model.Cluster{Name: fmt.Sprintf("service%04d", i)}
		for e := range 10 {
			c.Endpoints = append(c.Endpoints, model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 90, byte(i), byte(e)}), uint16(9000+i/256)), Weight: 1})
		}
		cfg.Clusters = append(cfg.Clusters, c)
		rt.VirtualHosts = append(rt.VirtualHosts, &model.VirtualHost{
			Name: c.Name, Domains: []string{c.Name}, Routes: []*model.Route{prefixRoute("/", c.Name)},
		})
	}
	cfg.Listeners = []*model.Listener{{Name: "l", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: rt}}
	return cfg
}

// BenchmarkOneOfMany has the endpoints of one cluster of 1,000 change.
func BenchmarkOneOfMany(b *testing.B) {
	cfg := manyClusters(1000)
	compiler := NewCompiler()
	compiler.Compile(cfg)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		next := *cfg
		next.Clusters = slices.Clone(cfg.Clusters)
		changed := *cfg.Clusters[i*7%1000]
		changed.Endpoints = slices.Clone(changed.Endpoints)
		next.Clusters[i*7%1000] = &changed
		compiler.Compile(&next)
		cfg = &next
	}
}

func TestHashingAndThisNodesOwnClusterKnowNoZones(t *testing.T) {
	im, _ := Compile(&model.Config{
		Clusters: []*model.Cluster{{Name: "ring", Policy: model.RingHash}, {Name: "nodes"}, {Name: "other"}}, Local: &model.Local{Cluster: "nodes"},
	})
	for i, want := range []bool{false, false, true} {
		if got := im.Clusters[i].Zones != nil; got != want {
			t.Errorf("%s: zone-aware %t, want %t", im.Clusters[i].Key.Name, got, want)
		}
	}
}
