// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// Contents is all that a generation finds in the kernel's maps.
func (g *Generation) Contents() (list []string) {
	for index, e := range g.endpoints.All() {
		list = append(list, fmt.Sprintf("%d: %s %s gone %t", index, e.Cluster, e.Address, e.Gone))
	}
	for name, c := range g.entries {
		list = append(list, fmt.Sprintf("%s: %d %v", name, c.index, c.byAddress()))
		for _, e := range c.endpoints {
			list = append(list, fmt.Sprintf("%s has %d", name, e.Index))
		}
	}
	slices.Sort(list)
	return list
}

// ClustersByKey are the clusters that a generation finds.
func (g *Generation) ClustersByKey() map[model.ClusterKey]*model.Cluster { return g.clusters }
