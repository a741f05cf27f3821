// SPDX-License-Identifier: Apache-2.0

package compile

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

// criteriaSet are the criteria that routes have, by cluster; those of the empty name are for every cluster.
type criteriaSet map[string][]model.Metadata

// criteriaOf looks through all routes of a configuration.
func criteriaOf(cfg *model.Config) criteriaSet {
	set := criteriaSet{}
	for _, l := range cfg.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				set.addRoute(r)
			}
		}
	}
	return set
}

func (s criteriaSet) addRoute(r *model.Route) {
	for i := range r.Clusters {
		c := &r.Clusters[i]
		s.add(c.Name, c.Criteria)
		for j := range r.Mirrors { // copies ask for what their requests do
			s.add(r.Mirrors[j].Cluster, c.Criteria)
		}
	}
}

// add notes what is asked of a cluster. Without a name a header holds that, and it may be any cluster's.
func (s criteriaSet) add(cluster string, criteria model.Metadata) {
	if criteria != "" && !slices.Contains(s[cluster], criteria) {
		s[cluster] = append(s[cluster], criteria)
	}
}

func (s criteriaSet) of(cluster string) []model.Metadata {
	list := slices.Concat(s[cluster], s[""])
	slices.Sort(list)
	return slices.Compact(list)
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

// inPlace is how many there are in a locality of a priority.
type inPlace map[model.Place]int

func countPlaces(members []Member) inPlace {
	count := inPlace{}
	for i := range members {
		count[members[i].Place]++
	}
	return count
}

// scale gives each locality of the part the share of its weight that the part has of its members, rounded as Envoy does.
func (p *Part) scale(all []Member) {
	here, everywhere := countPlaces(p.Members), countPlaces(all)
	for i := range p.Members {
		place := p.Members[i].Place
		weight := float32(place.LocalityWeight) * float32(here[place]) / float32(everywhere[place])
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
		return len(g.Turns) > 0
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

// noteSubsets notes which clusters have subsets.
func (s *space) noteSubsets(cfg *model.Config) {
	s.subsetted = map[string]bool{}
	for _, c := range cfg.Clusters {
		if c.Subsets != nil {
			s.subsetted[c.Name] = true
		}
	}
}

// criteria of a share; none where its cluster has no subsets.
func (s *space) criteria(c *model.WeightedCluster) model.Metadata {
	if !s.subsetted[c.Name] {
		return ""
	}
	return c.Criteria
}
