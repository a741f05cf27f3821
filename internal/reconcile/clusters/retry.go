// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
)

type retryKey struct {
	part     model.Part
	excluded string
}

type retryRoot struct {
	group clusters.Group
	ok    bool
}

// RetryRoot is what the retry of a request is balanced among whose policy leaves these priorities out: a group of the endpoints of these
// indices, not to be changed. It reports false where no other priority can take anything (clusters.Cluster.RetryRoot), and for what no route in force
// asks for.
func (r *Reconciler) RetryRoot(of model.ClusterKey, criteria model.Metadata, excluded []bool) (group clusters.Group, endpoints []uint32, ok bool) {
	c := r.clusters[of]
	if c == nil || c.compiled == nil {
		return clusters.Group{}, nil, false
	}
	parts := c.compiled.PartsOf()
	part := parts[0]
	switch s := c.subsets[criteria]; {
	case s != nil:
		part = s.part
	case criteria != "" && len(c.compiled.Parts) > 0:
		return clusters.Group{}, nil, false
	}
	key := retryKey{part, fmt.Sprint(excluded)}
	root, known := c.retries[key]
	if !known {
		i := slices.Index(parts, part)
		if i < 0 {
			return clusters.Group{}, nil, false
		}
		known := r.learned(c)
		known.Excluded = excluded
		root.group, root.ok = c.compiled.RetryRoot(i, known)
		if c.retries == nil {
			c.retries = map[retryKey]retryRoot{}
		}
		c.retries[key] = root
	}
	return root.group, c.endpoints, root.ok
}
