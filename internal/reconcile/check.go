// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"iter"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// checkClusters refuses an image with a route to a cluster that it does not have.
func checkClusters(im *compile.Image) error {
	known := map[model.ClusterKey]bool{}
	for _, c := range im.Clusters {
		known[c.Key] = true
	}
	for i := range im.Listeners {
		l := &im.Listeners[i]
		if l.PassesBy {
			continue
		}
		for name := range clusterNames(l.Table) {
			if !known[l.View.Cluster(name)] {
				return fmt.Errorf("%s: a route names cluster %q, which the configuration does not have; add it", l.View.Listener(l.Name), name)
			}
		}
	}
	return nil
}

// clusterNames are the clusters of a table's routes, with repetitions.
func clusterNames(t *tables.Table) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range t.Routes {
			if r := &t.Routes[i]; r.Count == 0 && r.Flags&maps.RouteSlow == 0 && !yield(r.Cluster) {
				return
			}
		}
		for i := range t.Splits {
			if !yield(t.Splits[i].Cluster) {
				return
			}
		}
	}
}
