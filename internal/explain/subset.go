// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net"
	"strconv"

	"github.com/xlb-project/xlb/internal/model"
)

// Subset says which of a cluster's endpoints requests go to.
type Subset struct {
	// Criteria are what the route asks for, as JSON; empty: nothing.
	Criteria model.Metadata `json:"criteria,omitempty"`
	// Kind is "subset", "any", "default" or "none".
	Kind string `json:"kind"`
	// Of are the criteria of the subset that is taken: with KEYS_SUBSET a part of Criteria.
	Of model.Metadata `json:"of,omitempty"`
}

var partNames = map[model.PartKind]string{
	model.PartSubset: "subset", model.PartAny: "any", model.PartDefault: "default", model.PartNone: "none",
}

// subsetOf finds out what requests with these criteria are balanced among, and which addresses that are; nil where the cluster has no
// subsets. Names that have not been resolved stand for their addresses.
func subsetOf(c *model.Cluster, criteria model.Metadata) (s *Subset, isIn func(address string) bool) {
	if c.Subsets == nil {
		return nil, func(string) bool { return true }
	}
	type host struct {
		address  string
		metadata model.Metadata
	}
	var hosts []host
	for i := range c.Endpoints {
		hosts = append(hosts, host{c.Endpoints[i].Address.String(), c.Endpoints[i].Metadata})
	}
	if len(hosts) == 0 {
		for i := range c.Targets {
			t := &c.Targets[i]
			hosts = append(hosts, host{net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))), t.Metadata})
		}
	}
	labels := make([]model.Labels, len(hosts))
	for i := range hosts {
		labels[i] = c.Subsets.LabelsOf(hosts[i].metadata)
	}
	part := c.Subsets.Of(criteria, labels)
	in := map[string]bool{}
	for i := range hosts {
		in[hosts[i].address] = c.Subsets.Has(part, labels[i])
	}
	return &Subset{Criteria: criteria, Kind: partNames[part.Kind], Of: part.Criteria}, func(address string) bool { return in[address] }
}

// Text names the endpoints, and what was asked for where they are others.
func (s *Subset) Text() string {
	text := map[string]string{"subset": "subset " + string(s.Of), "any": "all endpoints", "default": "the default subset", "none": "no endpoint"}[s.Kind]
	if s.Criteria != s.Of {
		text += " for want of " + string(s.Criteria)
	}
	return text
}
