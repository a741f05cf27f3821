// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"math"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// Subset says which of a cluster's parts the requests of routes with these criteria are balanced among.
type Subset struct {
	Criteria model.Metadata
	// Part is an index into the cluster's Parts.
	Part int
}

// Part is what a cluster with subsets balances among.
type Part struct {
	model.Part
	// Members are the cluster's, with the weights that localities have in the part.
	Members []Member
	// LocalityWeighted is Balancing's in the part.
	LocalityWeighted bool
}

// addSubsets finds the parts of a cluster that routes with such criteria need; the first is for requests without criteria.
func (c *Cluster) addSubsets(source *model.Cluster, criteria []model.Metadata) {
	rules := source.Subsets
	if rules == nil {
		return
	}
	labels := make([]model.Labels, len(source.Endpoints))
	for i := range source.Endpoints {
		labels[i] = rules.LabelsOf(source.Endpoints[i].Metadata)
	}
	c.part(rules, labels, "")
	for _, asked := range criteria {
		c.Subsets = append(c.Subsets, Subset{asked, c.part(rules, labels, asked)})
	}
}

// part returns the index of the part for these criteria.
func (c *Cluster) part(rules *model.Subsets, labels []model.Labels, asked model.Metadata) int {
	p := Part{Part: rules.Of(asked, labels)}
	if i := slices.IndexFunc(c.Parts, func(other Part) bool { return other.Part == p.Part }); i >= 0 {
		return i
	}
	for i, m := range c.Members { // one for each endpoint of the model
		if rules.Has(p.Part, labels[i]) {
			p.Members = append(p.Members, m)
		}
	}
	p.LocalityWeighted = c.Balancing.LocalityWeighted && rules.LocalityAware
	if p.LocalityWeighted && rules.ScaleLocality {
		p.scale(c.Members)
	}
	c.Parts = append(c.Parts, p)
	return len(c.Parts) - 1
}

// byPlacement is how many there are in a locality of a priority.
type byPlacement map[model.Placement]int

func countByPlacement(members []Member) byPlacement {
	count := byPlacement{}
	for i := range members {
		count[members[i].Placement]++
	}
	return count
}

// scale gives each locality of the part the share of its weight that the part has of its members, rounded as Envoy does.
func (p *Part) scale(all []Member) {
	here, everywhere := countByPlacement(p.Members), countByPlacement(all)
	for i := range p.Members {
		placement := p.Members[i].Placement
		weight := float32(placement.LocalityWeight) * float32(here[placement]) / float32(everywhere[placement])
		p.Members[i].LocalityWeight = uint32(math.Round(float64(weight)))
	}
}

// PartsOf are what a cluster balances among, the first of them for requests without criteria: without subsets it is all there is.
func (c *Cluster) PartsOf() []model.Part {
	if len(c.Parts) == 0 {
		return []model.Part{{}}
	}
	list := make([]model.Part, len(c.Parts))
	for i := range c.Parts {
		list[i] = c.Parts[i].Part
	}
	return list
}

// hasEndpoints reports whether some choice in the group finds an endpoint.
func (g *Group) hasEndpoints() bool {
	if len(g.Groups) == 0 {
		return len(g.Schedule) > 0
	}
	return slices.ContainsFunc(g.Groups, func(below Group) bool { return below.hasEndpoints() })
}

// RootOf is Root for one of PartsOf.
func (c *Cluster) RootOf(part int, of Learned) Group {
	if len(c.Parts) == 0 {
		return c.root(of)
	}
	p := &c.Parts[part]
	narrow := *c
	narrow.Members, narrow.Balancing.LocalityWeighted = p.Members, p.LocalityWeighted
	root := narrow.root(of)
	if p.Panic && !root.hasEndpoints() {
		narrow.Members = c.Members
		return narrow.root(of)
	}
	return root
}
