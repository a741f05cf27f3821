// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/model"
)

// hashed returns the root of a ring over endpoints, the nth of which has port n+1.
func hashed(b model.Balancing, endpoints ...model.Endpoint) Group {
	for i := range endpoints {
		endpoints[i].Address = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(i+1))
		endpoints[i].Weight = max(endpoints[i].Weight, 1)
	}
	c, _ := compileCluster(&model.Cluster{
		Name: "c", Policy: model.RingHash, Hashing: model.DefaultHashing(), Balancing: b, Endpoints: endpoints,
	})
	return c.Root(nil)
}

// described says what a group that hashes leads to: for each table the ports and shares of its hosts, and how many of 100 hashes it gets,
// in order.
func described(g *Group) []string {
	if g.Hashing != nil {
		var hosts string
		for _, h := range g.Hashing.Hosts {
			hosts += fmt.Sprintf("%s=%.3f ", h.Key[len("127.0.0.1"):], h.Share)
		}
		return []string{hosts}
	}
	var out []string
	for i, turn := range g.Schedule {
		if i > 0 && g.Schedule[i-1] == turn {
			continue
		}
		n := slices.IndexFunc(g.Schedule[i:], func(other uint32) bool { return other != turn })
		if n < 0 {
			n = len(g.Schedule) - i
		}
		out = append(out, fmt.Sprintf("%d: %s", n, described(&g.Groups[turn])[0]))
	}
	return out
}

func TestHashesDrawPriorities(t *testing.T) {
	priority := func(n uint32) model.Placement { return model.Placement{Priority: n} }
	in := func(zone string, weight uint32) model.Placement {
		return model.Placement{Locality: model.Locality{Zone: zone}, LocalityWeight: weight}
	}
	for _, tt := range []struct {
		name      string
		balancing model.Balancing
		endpoints []model.Endpoint
		want      []string
	}{
		{"one priority", model.Balancing{}, []model.Endpoint{{Weight: 1}, {Weight: 3}}, []string{":1=0.250 :2=0.750 "}},
		{"the first hashes are the first priority's", model.Balancing{},
			[]model.Endpoint{{}, {Health: model.Unhealthy}, {Placement: priority(1)}}, []string{"70: :1=1.000 ", "30: :3=1.000 "}},
		{"degraded hosts are in no table, and their share is lost", model.Balancing{},
			[]model.Endpoint{{}, {Health: model.Degraded}, {Health: model.Unhealthy}}, []string{":1=1.000 "}},
		{"panic takes all", model.Balancing{FailOnPanic: true},
			[]model.Endpoint{{}, {Health: model.Unhealthy}, {Health: model.Unhealthy}}, []string{":1=0.333 :2=0.333 :3=0.333 "}},
		{"localities share by weight", model.Balancing{LocalityWeighted: true},
			[]model.Endpoint{{Placement: in("b", 3)}, {Placement: in("a", 1)}, {Placement: in("a", 1)}, {Placement: in("c", 0)}},
			[]string{":2=0.125 :3=0.125 :1=0.750 "}},
		{"the share of an empty locality is lost", model.Balancing{LocalityWeighted: true},
			[]model.Endpoint{{Placement: in("b", 3), Health: model.Unhealthy}, {Placement: in("a", 1)}}, []string{":2=0.250 "}},
		{"no endpoints", model.Balancing{}, nil, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := hashed(tt.balancing, tt.endpoints...)
			if root.Hashing == nil && len(root.Groups) == 0 {
				root.Hashing = &Hashing{}
			}
			if diff := cmp.Diff(tt.want, described(&root)); diff != "" {
				t.Errorf("tables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEqualHashingMakesOneTable(t *testing.T) {
	base := func() *Hashing {
		return &Hashing{Hosts: []hashing.Host{{Key: "a", Share: 1}}, Endpoints: []uint32{3}, Ring: hashing.DefaultRingSize}
	}
	if !base().Equal(base()) || base().Equal(nil) || !(*Hashing)(nil).Equal(nil) {
		t.Error("equal ones differ, or one is equal to none")
	}
	for i, change := range []func(*Hashing){
		func(h *Hashing) { h.Hosts[0].Key = "b" }, func(h *Hashing) { h.Hosts[0].Share = .5 }, func(h *Hashing) { h.Endpoints[0] = 4 },
		func(h *Hashing) { h.Maglev = 11 }, func(h *Hashing) { h.Ring.Max = 9 }, func(h *Hashing) { h.Murmur = true },
		func(h *Hashing) { h.BalanceFactor = 120 },
	} {
		other := base()
		change(other)
		if base().Equal(other) {
			t.Errorf("change %d is none", i)
		}
	}
}
