// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/compile"
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
		for key := range l.Table.Clusters() {
			if !known[key] {
				return fmt.Errorf("%s: a route names cluster %q, which the configuration does not have; add it", l.View.Listener(l.Name), key.Name)
			}
		}
	}
	return nil
}
