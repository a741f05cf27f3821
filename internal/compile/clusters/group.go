// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
)

// Group is what a choice is made among: endpoints, or other groups.
type Group struct {
	Policy maps.Policy
	// Choices of LEAST_REQUEST; 0 for the other policies.
	Choices uint32
	// Schedule are indices into Groups if there are some, else into the cluster's Endpoints, each as often as its share asks.
	// Without any the choice ends here, without an endpoint.
	Schedule []uint32
	// Hashing finds endpoints by hash; nil where the policy does not, and where there are Groups.
	Hashing *Hashing
	// Groups, none of which has an empty schedule unless its requests are to fail.
	Groups []Group
}

// EndpointState is what has been learned of an endpoint since the configuration was written.
type EndpointState struct {
	// Flags of health; others do not matter.
	Flags maps.EndpointFlags
	// Factor of its weight while it is healthy, above 0 and below 1 in a slow start; 0 stands for 1.
	Factor float64
}

// States tell what has been learned of each endpoint of a cluster; nil stands for nothing learned of any.
type States func(endpoint uint32) EndpointState

// Learned is what balancing depends on beside the configuration.
type Learned struct {
	// Own are the states of the cluster's endpoints, Local those of the endpoints of Zones.Cluster.
	Own, Local States
	// Excluded are priorities that a retry leaves out; nil: it is none. See RetryRoot.
	Excluded []bool
}

// Root returns the group that a choice in the cluster begins with, while its endpoints are in these states. It is pure: the same states
// give the same groups.
//
// As in Envoy a priority, and in it the healthy or the degraded hosts, are drawn at random by load, and a locality then takes
// its turn; steps that have one way to go are left out.
//
// Of a cluster with subsets it is that of the part for requests without criteria.
func (c *Cluster) Root(states States) Group {
	return c.RootOf(0, Learned{Own: states})
}

func (c *Cluster) root(of Learned) Group {
	priorities := c.priorities(of.Own)
	if c.hashes() {
		return c.hashRoot(priorities)
	}
	priorities[0].zoning = c.zoning(&priorities[0], of.Local)
	load := loadsOf(priorities, &c.Balancing)
	if of.Excluded != nil {
		load.leaveOut(priorities, &c.Balancing, of.Excluded)
	}
	root := Group{Policy: maps.PolicyRandom}
	var shares []uint64
	for i := range priorities {
		p := &priorities[i]
		if n := load.healthy[i]; n > 0 {
			shares = append(shares, n)
			root.Groups = append(root.Groups, c.source(p, p.healthy, load.panic[i]))
		}
		if n := load.degraded[i]; n > 0 {
			shares = append(shares, n)
			root.Groups = append(root.Groups, c.source(p, p.degraded, load.panic[i]))
		}
	}
	switch len(root.Groups) {
	case 0:
		return Group{Policy: c.Policy, Choices: c.Choices}
	case 1:
		return root.Groups[0]
	}
	root.Schedule = scheduleOf(shares)
	return root
}

// source is the group of a priority's healthy or degraded hosts. Panic takes all hosts, and forgets the localities.
func (c *Cluster) source(p *priority, eligible []Member, panicking bool) Group {
	switch {
	case panicking && c.Balancing.FailOnPanic:
		return c.group(nil)
	case panicking:
		return c.group(p.all)
	case c.Balancing.LocalityWeighted:
		return c.localities(p, eligible)
	}
	return c.zoned(p, eligible)
}

// group is that of hosts which are chosen among by the cluster's policy.
func (c *Cluster) group(hosts []Member) Group {
	weights := weightsOf(hosts)
	schedule := scheduleOf(weights)
	for i, host := range schedule {
		schedule[i] = hosts[host].Endpoint
	}
	g := Group{Policy: c.Policy, Choices: c.Choices, Schedule: schedule}
	if c.Policy == maps.PolicyLeastRequest {
		g.Policy = c.leastRequest(slices.ContainsFunc(weights, func(w uint64) bool { return w != weights[0] }))
	}
	return g
}

// leastRequest is how LEAST_REQUEST chooses. As in Envoy different weights leave nothing to compare: an endpoint's share is then its
// weight / (requests + 1), or with a bias of 0 its weight.
func (c *Cluster) leastRequest(weighted bool) maps.Policy {
	switch {
	case weighted && c.Unbiased:
		return maps.PolicyRoundRobin
	case weighted:
		return maps.PolicyLeastWeighted
	case c.FullScan:
		return maps.PolicyLeastScan
	}
	return maps.PolicyLeastRequest
}

// weightsOf are the weights in force, in whole numbers. Those that start slowly at one pace keep their proportion.
func weightsOf(hosts []Member) []uint64 {
	weights, scaled := make([]uint64, len(hosts)), make([]float64, len(hosts))
	paces := map[float64]bool{}
	for i := range hosts {
		pace := cmp.Or(hosts[i].Factor, 1)
		paces[pace] = true
		weights[i], scaled[i] = uint64(hosts[i].Weight), float64(hosts[i].Weight)*pace
	}
	if len(paces) > 1 {
		return whole(scaled)
	}
	return weights
}
