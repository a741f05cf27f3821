// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/plural"
)

// FullError says that there is no room for the endpoints of an image. Nothing of it was written.
type FullError struct {
	// Cluster has the most endpoints that are new.
	Cluster model.ClusterKey
	// New are those of all clusters, Most those of that cluster, Left how many there is room for.
	New, Most, Left int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("map endpoints is full: %s %s new, %d of %s, and there is room for %d; configure fewer, or try again when those that have left are idle",
		plural.Of(e.New, "endpoint"), plural.Verb(e.New, "is", "are"), e.Most, e.Cluster, e.Left)
}

// CheckCapacity says whether there are indices for the endpoints of clusters that are new, before any is taken: those that a failure had taken would be
// missing for what comes after it.
func (r *Reconciler) CheckCapacity(list []*clusters.Cluster) error {
	left, bound := int(r.indices.Endpoints.Left()), 0
	for _, c := range list {
		bound += len(c.Endpoints)
	}
	if bound <= left {
		return nil
	}
	full := &FullError{Left: left}
	for _, c := range list {
		n := 0
		for i := range c.Endpoints {
			if r.endpoints[endpointKey{c.Key, c.Endpoints[i].Address}] == nil {
				n++
			}
		}
		if full.New += n; n > full.Most {
			full.Cluster, full.Most = c.Key, n
		}
	}
	if full.New <= left {
		return nil
	}
	return full
}
