// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// defaultChoices is Envoy's LeastRequestLbConfig.choice_count where none is set.
const defaultChoices = 2

// Compile compiles a cluster, with the parts that routes with such criteria need. The notes say what will be slower than it could be.
func Compile(c *model.Cluster, criteria []model.Metadata) (*Cluster, []note.Note) {
	out, notes := compileCluster(c)
	out.addSubsets(c, criteria)
	return &out, notes
}

func compileCluster(c *model.Cluster) (Cluster, []note.Note) {
	out := Cluster{
		Key: c.Key(), From: from(c), Ejects: c.Outlier != nil, Policy: policyOf(c.Policy), Limit: limitOf(c), Balancing: c.Balancing, SlowStart: c.SlowStart,
		FullScan: c.FullScan, Unbiased: c.Unbiased,
	}
	out.addMembers(c)
	if c.Policy.Hashes() {
		out.Hashing = c.Hashing
		return out, hashNotes(c)
	}
	if out.Policy != maps.PolicyLeastRequest {
		return out, nil
	}
	out.Choices = c.ChoiceCount
	if out.Choices == 0 {
		out.Choices = defaultChoices
	}
	if out.Choices <= uint32(maps.MaxPickTries) {
		return out, nil
	}
	return out, []note.Note{{
		Where:  c.Called(),
		Reason: fmt.Sprintf("choice_count is %d; the fast path compares %d endpoints", c.ChoiceCount, maps.MaxPickTries),
	}}
}

// limitOf is what the kernel may have in flight. Where a retry budget needs the count of all requests it is never none.
func limitOf(c *model.Cluster) uint32 {
	b := c.BreakersOf(model.PriorityDefault)
	if b.Budget != nil {
		return min(b.InUse(), maps.NoLimit-1)
	}
	return b.InUse()
}

func policyOf(p model.Policy) maps.Policy {
	switch p {
	case model.LeastRequest:
		return maps.PolicyLeastRequest
	case model.Random:
		return maps.PolicyRandom
	case model.RingHash:
		return maps.PolicyRingHash
	case model.Maglev:
		return maps.PolicyMaglev
	default:
		return maps.PolicyRoundRobin
	}
}

// addMembers lists each address once: one that is configured twice, or in two places, is one
// endpoint with one pool, and several members.
func (c *Cluster) addMembers(source *model.Cluster) {
	at := map[netip.AddrPort]int{}
	for _, e := range source.Endpoints {
		address := Unmapped(e.Address)
		i, known := at[address]
		if !known {
			i = len(c.Endpoints)
			at[address] = i
			checked := source.HealthCheck != nil && !e.Check.Disabled
			c.Endpoints = append(c.Endpoints, Endpoint{Address: address, Checked: checked, TLS: e.TLS, Hostname: e.Hostname, Inner: e.Inner})
		}
		weight := scheduleWeight(source.Policy, e.Weight)
		c.Endpoints[i].Weight = saturatingSum(c.Endpoints[i].Weight, weight)
		c.Members = append(c.Members, Member{
			Endpoint: uint32(i), Weight: weight, HealthWeight: max(e.Weight, 1), Placement: e.Placement, Health: e.Health, HashKey: hashKey(source, &e),
		})
	}
	for i := range c.Endpoints {
		c.Endpoints[i].LoadWeight = loadWeight(source.Policy, c.Endpoints[i].Weight)
	}
}

// scheduleWeight is what an entry adds to its endpoint's share of the schedule. RANDOM draws
// from the list of entries and does not look at weights (Envoy's RandomLoadBalancer).
func scheduleWeight(p model.Policy, weight uint32) uint32 {
	if p == model.Random {
		return 1
	}
	return max(weight, 1)
}

func saturatingSum(a, b uint32) uint32 {
	return uint32(min(uint64(a)+uint64(b), math.MaxUint32))
}

// loadWeight is what the kernel divides an endpoint's outstanding requests by where LEAST_REQUEST compares: it does so among endpoints of
// one weight only (see Cluster.leastRequest), whatever that is.
func loadWeight(p model.Policy, weight uint32) uint32 {
	if p == model.LeastRequest {
		return 1
	}
	return weight
}

// from is the cluster that others have still.
func from(c *model.Cluster) model.ClusterKey {
	if c.Common == nil {
		return model.ClusterKey{}
	}
	return c.Common.From
}
