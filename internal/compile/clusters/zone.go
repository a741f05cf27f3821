// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Zones is what a cluster's requests need to keep to the locality of this node.
type Zones struct {
	model.Local
	// Own is the Local's Cluster, Endpoints and Members are its.
	Own       model.ClusterKey
	Endpoints []Endpoint
	Members   []Member
	// Localities of the cluster's first priority, that of this node first if it is there. Subsets of the cluster have all of them.
	Localities []model.Locality
	// isHere says that the first one is this node's.
	isHere bool
}

// ZoneAware is the cluster with what it needs to be zone-aware, as in Envoy all but that of this node itself and those that hash.
func (c *Cluster) ZoneAware(local *model.Local, own *Cluster) *Cluster {
	if c == own || c.hashes() {
		return c
	}
	out := *c
	out.Zones = &Zones{Local: *local, Own: own.Key, Endpoints: own.Endpoints, Members: own.Members}
	out.Zones.addLocalities(out.Members)
	return &out
}

func (z *Zones) addLocalities(members []Member) {
	for i := range members {
		if members[i].Priority > 0 {
			continue
		}
		if l := members[i].Locality; !slices.Contains(z.Localities, l) {
			z.Localities = append(z.Localities, l)
		}
	}
	i := slices.Index(z.Localities, z.Locality)
	if z.isHere = i >= 0; z.isHere {
		z.Localities[0], z.Localities[i] = z.Localities[i], z.Localities[0]
	}
}

// zoning is how the requests of a cluster's first priority are shared among the localities of its Zones.
type zoning struct {
	// localities are those that get some, with what is due to each.
	localities []model.Locality
	shares     []uint64
	// fails: their requests fail.
	fails bool
}

// zoneScale is what Envoy counts shares of localities in: hundredths of a percent, rounded down.
const zoneScale = 10_000

// zoning finds the shares of localities, while the endpoints of this node's own cluster are in these states, as Envoy does; nil where nothing
// is zone-aware (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/zone_aware).
func (c *Cluster) zoning(p *priority, states States) *zoning {
	if c.Zones == nil {
		return nil
	}
	z, rules := c.Zones, &c.Balancing.Zones
	own := &prioritiesOf(z.Members, states)[0]
	if !z.applies(rules, p, own) {
		return nil
	}
	if own.isInPanic(panicThreshold(&c.Balancing)) {
		if c.Balancing.FailOnPanic {
			return &zoning{fails: true}
		}
		return nil
	}
	here, hosts := z.percentages(rules, own.healthy), z.percentages(rules, p.healthy)
	forced := rules.ForceLocal != nil && countIn(p.healthy, z.Localities[0]) >= int(*rules.ForceLocal)
	if z.isHere && (forced || hosts[0] > 0 && hosts[0] >= here[0]) {
		return &zoning{localities: z.Localities[:1], shares: []uint64{1}}
	}
	return &zoning{localities: z.Localities, shares: z.residual(here, hosts)}
}

// applies reports whether localities matter. As in Envoy it counts those that have any hosts, healthy or not.
func (z *Zones) applies(rules *model.Zones, p, own *priority) bool {
	var places []model.Locality
	for i := range own.all {
		if !slices.Contains(places, own.all[i].Locality) {
			places = append(places, own.all[i].Locality)
		}
	}
	least := uint64(model.DefaultZoneHosts)
	if rules.MinHosts != nil {
		least = *rules.MinHosts
	}
	return len(z.Localities) > 1 && (len(places) > 1 || rules.ForceLocal != nil) &&
		slices.Contains(places, z.Locality) && uint64(len(p.healthy)) >= least
}

// percentages are the parts of some hosts that are in each of the localities, in zoneScale.
func (z *Zones) percentages(rules *model.Zones, hosts []Member) []uint64 {
	at := map[model.Locality]uint64{}
	var sum uint64
	for i := range hosts {
		n := uint64(1)
		if rules.ByWeight {
			n = uint64(hosts[i].HealthWeight)
		}
		at[hosts[i].Locality] += n
		sum += n
	}
	parts := make([]uint64, len(z.Localities))
	for i, l := range z.Localities {
		if sum > 0 {
			parts[i] = zoneScale * at[l] / sum
		}
	}
	return parts
}

// residual shares the requests where the locality of this node has too few hosts for those that come from here: it takes what it can, and the
// others the rest, by what they have beyond the requests that come from there. Where none has anything, which rounding can bring about, any takes it.
func (z *Zones) residual(here, hosts []uint64) []uint64 {
	var stay uint64
	left, shares := make([]uint64, len(hosts)), make([]uint64, len(hosts))
	if z.isHere && here[0] > 0 {
		stay = hosts[0] * zoneScale / here[0]
	}
	var sum uint64
	for i := range hosts {
		if hosts[i] > here[i] && (i > 0 || !z.isHere) {
			left[i] = hosts[i] - here[i]
			sum += left[i]
		}
	}
	if sum == 0 {
		sum = uint64(len(left))
		for i := range left {
			left[i] = 1
		}
	}
	for i := range shares {
		shares[i] = (zoneScale - stay) * left[i]
	}
	shares[0] += stay * sum
	return shares
}

func countIn(hosts []Member, l model.Locality) int {
	n := 0
	for i := range hosts {
		if hosts[i].Locality == l {
			n++
		}
	}
	return n
}

// zoned is the group of a priority's hosts, shared among localities as far as that is to be. Envoy draws them at random, and asks healthy hosts for
// the shares of degraded ones too: where a locality has none of these its requests fail.
func (c *Cluster) zoned(p *priority, eligible []Member) Group {
	enabled := uint64(100)
	if n := c.Balancing.Zones.Enabled; n != nil {
		enabled = min(100, uint64(*n))
	}
	z := p.zoning
	if z == nil || enabled == 0 {
		return c.group(eligible)
	}
	root := Group{Policy: maps.PolicyRandom}
	var shares []uint64
	add := func(share uint64, hosts []Member) {
		if share > 0 {
			root.Groups, shares = append(root.Groups, c.group(hosts)), append(shares, share)
		}
	}
	sum := cmp.Or(sumOf(z.shares), 1)
	add((100-enabled)*sum, eligible)
	if z.fails {
		add(enabled, nil)
	}
	for i, l := range z.localities {
		var hosts []Member
		for _, h := range eligible {
			if h.Locality == l {
				hosts = append(hosts, h)
			}
		}
		add(enabled*z.shares[i], hosts)
	}
	if len(root.Groups) == 1 {
		return root.Groups[0]
	}
	root.Schedule = scheduleOf(shares)
	return root
}

func sumOf(list []uint64) uint64 {
	var sum uint64
	for _, n := range list {
		sum += n
	}
	return sum
}
