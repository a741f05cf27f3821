// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// retryPicker implements slowpath.RetryBalancer, as Envoy's previous_priorities does.
type retryPicker struct {
	s         *Selector
	cluster   model.ClusterKey
	criteria  model.Metadata
	frequency int
	// attempted are the priorities that requests have gone to, excluded those that are left out now; nil: none has been yet.
	attempted []uint32
	excluded  []bool
}

// Retrying begins to choose for the retries of one request (slowpath.Config.Retrying).
func (s *Selector) Retrying(cluster model.ClusterKey, criteria model.Metadata, frequency uint32) slowpath.RetryBalancer {
	return &retryPicker{s: s, cluster: cluster, criteria: criteria, frequency: int(frequency)}
}

// Tried implements slowpath.RetryBalancer. Where every priority that can take anything has been tried all begins anew.
func (r *retryPicker) Tried(e slowpath.ChosenEndpoint) {
	p, ok := e.(interface{ Index() uint32 })
	if !ok {
		return
	}
	tried, _ := r.s.cfg.Generation().Endpoint(p.Index())
	r.attempted = append(r.attempted, tried.Placement.Priority)
	if len(r.attempted)%r.frequency != 0 {
		return
	}
	for _, priority := range r.attempted {
		for uint32(len(r.excluded)) <= priority {
			r.excluded = append(r.excluded, false)
		}
		r.excluded[priority] = true
	}
	if _, _, ok := r.s.cfg.RetryRoot(r.cluster, r.criteria, r.excluded); !ok {
		clear(r.excluded)
		r.attempted = nil
	}
}

// Pick implements slowpath.RetryBalancer.
func (r *retryPicker) Pick(skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	if r.excluded == nil {
		return nil, false
	}
	return r.s.choose(func(g *generation.Generation) (slowpath.ChosenEndpoint, bool) { return r.pick(g, skip) })
}

func (r *retryPicker) pick(g *generation.Generation, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	root, endpoints, ok := r.s.cfg.RetryRoot(r.cluster, r.criteria, r.excluded)
	if !ok {
		return nil, false
	}
	tree := treeOf(&root, endpoints)
	index, ok := r.s.cfg.Picker.PickFrom(&tree, func(e uint32) bool { return isSkipped(g, e, skip) })
	if !ok {
		return nil, false
	}
	return r.s.chosenAt(g, index), true
}

// treeOf is a compiled group whose endpoints have these indices.
func treeOf(g *clusters.Group, endpoints []uint32) balance.Tree {
	t := balance.Tree{Policy: g.Policy, Choices: g.Choices, Schedule: make([]maps.Turn, len(g.Schedule))}
	for i := range g.Groups {
		t.Groups = append(t.Groups, treeOf(&g.Groups[i], endpoints))
	}
	for i, entry := range g.Schedule {
		t.Schedule[i] = maps.Turn(entry)
		if len(g.Groups) == 0 {
			t.Schedule[i] = maps.Turn(endpoints[entry])
		}
	}
	return t
}
