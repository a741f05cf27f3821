// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// members are so many in zone a, b, c and so on.
func members(counts ...int) []Member {
	var list []Member
	for i, n := range counts {
		for range n {
			m := in(string(rune('a'+i)), 1)
			m.HealthWeight = 1
			list = append(list, m)
		}
	}
	return list
}

// weighing gives each member a weight.
func weighing(list []Member, weights ...uint32) []Member {
	for i, w := range weights {
		list[i].Weight, list[i].HealthWeight = w, w
	}
	return list
}

// zoneAware is a cluster of members for a node in a zone, beside which there are others.
func zoneAware(rules model.Balancing, hosts, nodes []Member, zone string) *Cluster {
	return inPlaces(rules, hosts...).ZoneAware(&model.Local{Cluster: "nodes", Locality: model.Locality{Zone: zone}}, inPlaces(model.Balancing{}, nodes...))
}

// zoneShares are the parts of the requests that zones get, in alphabetical order, and that fails.
func zoneShares(c *Cluster, own, local States) (shares []float64, failing float64) {
	root := c.RootOf(0, Learned{Own: own, Local: local})
	failing = 1
	by := map[string]float64{}
	for i, share := range root.Shares(len(c.Endpoints)) {
		by[c.Members[i].Locality.Zone] += share
		failing -= share
	}
	for _, zone := range []string{"a", "b", "c", "d"} {
		if slices.ContainsFunc(c.Members, func(m Member) bool { return m.Locality.Zone == zone }) {
			shares = append(shares, by[zone])
		}
	}
	return shares, failing
}

func TestZonesShareWhatTheirHostsCanTake(t *testing.T) {
	pointer := func(n uint32) *uint32 { return &n }
	few := new(uint64)
	zones := func(z model.Zones) model.Balancing {
		z.MinHosts = few
		return model.Balancing{Zones: z}
	}
	plain := zones(model.Zones{})
	failing := zones(model.Zones{Enabled: pointer(40)})
	failing.FailOnPanic = true
	many := uint64(9)
	tests := []struct {
		name         string
		rules        model.Balancing
		hosts, nodes []Member
		zone         string
		want         []float64
	}{
		{"as many here as requests come from here", plain, members(2, 2), members(1, 1), "a", []float64{1, 0}},
		{"more here", plain, members(3, 1), members(1, 1), "a", []float64{1, 0}},
		{"half of what would be needed", plain, members(1, 3), members(1, 1), "a", []float64{0.5, 0.5}},
		{"by what others have left", plain, members(1, 2, 1), members(2, 2, 1), "a", []float64{0.625, 0.25, 0.125}},
		{"only those who have anything left", plain, members(2, 2, 6), members(4, 4, 2), "a", []float64{0.5, 0, 0.5}},
		{"nobody here", plain, members(0, 1, 3), members(2, 1, 1), "a", []float64{0, 1}},
		{"a zone without nodes", plain, members(1, 3), members(1, 0, 1), "a", []float64{0.5, 0.5}},
		{"this node is not among the nodes", plain, members(1, 3), members(0, 1, 1), "a", []float64{0.25, 0.75}},
		{"nodes in one zone only", plain, members(1, 3), members(2), "a", []float64{0.25, 0.75}},
		{"endpoints in one zone only", plain, members(0, 4), members(1, 1), "a", []float64{1}},
		{"too few of them", zones(model.Zones{}), members(2, 2), members(1, 1), "a", []float64{1, 0}},
		{"less than the default of six", model.Balancing{}, members(3, 2), members(1, 1), "a", []float64{0.6, 0.4}},
		{"six", model.Balancing{}, members(4, 2), members(1, 1), "a", []float64{1, 0}},
		{"less than nine", model.Balancing{Zones: model.Zones{MinHosts: &many}}, members(6, 2), members(1, 1), "a", []float64{0.75, 0.25}},
		{"a part of the requests", zones(model.Zones{Enabled: pointer(40)}), members(2, 2), members(1, 1), "a", []float64{0.7, 0.3}},
		{"no part", zones(model.Zones{Enabled: pointer(0)}), members(2, 2), members(1, 1), "a", []float64{0.5, 0.5}},
		{"forced", zones(model.Zones{ForceLocal: pointer(1)}), members(1, 3), members(2), "a", []float64{1, 0}},
		{"not enough to be forced", zones(model.Zones{ForceLocal: pointer(2)}), members(1, 3), members(1, 1), "a", []float64{0.5, 0.5}},
		{"by number", plain, weighing(members(1, 1), 3, 1), weighing(members(1, 1), 9, 1), "b", []float64{0, 1}},
		{"by weight", zones(model.Zones{ByWeight: true}), weighing(members(1, 1), 3, 1), weighing(members(1, 1), 1, 1), "b", []float64{0.5, 0.5}},
		{"localities with weights have their own way", model.Balancing{LocalityWeighted: true, Zones: plain.Zones}, members(1, 3), members(1, 1), "a", []float64{0.5, 0.5}},
		{"nodes in panic", plain, members(1, 3), []Member{in("a", 1).is(model.Unhealthy), in("b", 1).is(model.Unhealthy), in("b", 1)}, "a", []float64{0.25, 0.75}},
		{"nodes in panic, which fails", failing, members(1, 3), []Member{in("a", 1).is(model.Unhealthy), in("b", 1).is(model.Unhealthy), in("b", 1)}, "a", []float64{0.15, 0.45}},
		{"as before where there is no zone", failing, members(4), []Member{in("a", 1).is(model.Unhealthy), in("b", 1).is(model.Unhealthy)}, "a", []float64{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := zoneShares(zoneAware(tt.rules, tt.hosts, tt.nodes, tt.zone), nil, nil)
			sum := failed
			for i := range got {
				sum += got[i]
				// A schedule has 4,096 entries, and percents are whole hundredths.
				if len(got) != len(tt.want) || math.Abs(got[i]-tt.want[i]) > 0.0005 {
					t.Fatalf("shares of zones: got %v, want %v", got, tt.want)
				}
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("shares sum to %v", sum)
			}
		})
	}
}

// Degraded hosts are asked for by the shares of healthy ones: where a zone has none of them the request fails, as in Envoy.
func TestZonesWithoutDegradedHostsFail(t *testing.T) {
	b := model.Balancing{Overprovisioning: 100, Zones: model.Zones{MinHosts: new(uint64)}}
	hosts := members(2, 2)
	hosts[3].Health = model.Degraded
	hosts[2].Health = model.Degraded
	got, failed := zoneShares(zoneAware(b, hosts, members(1, 1), "a"), nil, nil)
	if want := []float64{0.5, 0}; !slices.Equal(got, want) || failed != 0.5 {
		t.Errorf("shares of zones: got %v, and %v fails, want %v and 0.5", got, failed, want)
	}
}

func TestZonesFollowTheHealthOfEndpointsAndNodes(t *testing.T) {
	c := zoneAware(model.Balancing{Zones: model.Zones{MinHosts: new(uint64)}}, members(2, 2), members(1, 1), "a")
	shares := func(own, local States) float64 {
		got, _ := zoneShares(c, own, local)
		return got[0]
	}
	sick := flags(0, maps.EndpointUnhealthy, 0, 0)
	for _, tt := range []struct {
		name       string
		own, local States
		want       float64
	}{
		{"all are well", nil, nil, 1},
		{"an endpoint here is not", sick, nil, 0.6666},
		{"the other node is not", nil, sick, 0.5},
		{"both", sick, sick, 0.3333},
	} {
		if got := shares(tt.own, tt.local); math.Abs(got-tt.want) > 0.0005 {
			t.Errorf("%s: %.4f stay here, want %.4f", tt.name, got, tt.want)
		}
	}
}
