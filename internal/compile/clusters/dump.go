// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
)

var policyNames = map[maps.Policy]string{
	maps.PolicyRoundRobin:    "ROUND_ROBIN",
	maps.PolicyLeastRequest:  "LEAST_REQUEST",
	maps.PolicyRandom:        "RANDOM",
	maps.PolicyRingHash:      "RING_HASH",
	maps.PolicyMaglev:        "MAGLEV",
	maps.PolicyLeastWeighted: "LEAST_REQUEST, weighted",
	maps.PolicyLeastScan:     "LEAST_REQUEST, full scan",
}

var checkedText = map[bool]string{true: " checked"}

// Dump writes the cluster as text, for people and for golden files: its groups are those while nothing has been learned of its endpoints.
func (c *Cluster) Dump(w *strings.Builder) {
	fmt.Fprintf(w, "%s %s choices=%d limit=%d\n", c.Key, policyNames[c.Policy], c.Choices, c.Limit)
	for i, e := range c.Endpoints {
		fmt.Fprintf(w, "  endpoint %d %s weight=%d load_weight=%d%s\n", i, e.Address, e.Weight, e.LoadWeight, checkedText[e.Checked])
	}
	root := c.Root(nil)
	root.dump(w, "  ")
	for _, s := range c.Subsets {
		fmt.Fprintf(w, "  subset %s part=%d\n", s.Criteria, s.Part)
		root := c.RootOf(s.Part, Learned{})
		root.dump(w, "    ")
	}
}

// Dump writes the group's entries; those of groups in it are indented.
func (g *Group) dump(w *strings.Builder, indent string) {
	if len(g.Groups) == 0 {
		fmt.Fprintf(w, "%sschedule %v\n", indent, g.Schedule)
		return
	}
	fmt.Fprintf(w, "%s%s of groups %v\n", indent, policyNames[g.Policy], g.Schedule)
	for i := range g.Groups {
		g.Groups[i].dump(w, indent+"  ")
	}
}
