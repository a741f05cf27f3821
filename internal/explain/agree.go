// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// disagreement says how the fast path's decision contradicts the routes that the request
// may take, or returns "". The kernel draws for itself: where a fraction or weights
// decide, it may choose otherwise than the model has, but only among those. A hand-over
// for any reason but a missing route contradicts nothing.
func disagreement(scope model.Scope, d *Decision, possible []*model.Route, orNone bool) string {
	if d.By == ByNobody {
		return ""
	}
	switch d.Verdict {
	case maps.VerdictOk:
		if slices.ContainsFunc(possible, func(r *model.Route) bool { return d.serves(scope, r) }) {
			return ""
		}
		return fmt.Sprintf("the %s sends the request to cluster %q%s with timeout %s, the routes %s", d.By, d.Cluster, d.Criteria, d.Timeout, outcomes(scope, possible, orNone))
	case maps.HandoverNoVHost, maps.HandoverNoRoute:
		if orNone {
			return ""
		}
		return fmt.Sprintf("the %s finds no route, the routes %s", d.By, outcomes(scope, possible, orNone))
	}
	return ""
}

// serves reports whether the decision is what a route asks for.
func (d *Decision) serves(scope model.Scope, r *model.Route) bool {
	isIt := func(c model.WeightedCluster) bool { return c.Name == d.Cluster && criteriaOf(scope, &c) == d.Criteria }
	return !r.IsLocal() && d.Timeout == max(r.Timeout, 0) && slices.ContainsFunc(sharesOf(r), isIt)
}

// criteriaOf a share, where they choose among endpoints.
func criteriaOf(scope model.Scope, c *model.WeightedCluster) model.Metadata {
	if m := scope.Cluster(c.Name); m == nil || m.Subsets == nil {
		return ""
	}
	return c.Criteria
}

// outcomes says what the routes do with a request.
func outcomes(scope model.Scope, possible []*model.Route, orNone bool) string {
	var list []string
	for _, r := range possible {
		names := make([]string, 0, len(r.Clusters))
		for _, c := range sharesOf(r) {
			names = append(names, fmt.Sprintf("%q%s", c.Name, criteriaOf(scope, &c)))
		}
		if r.IsLocal() {
			list = append(list, "answer it")
			continue
		}
		list = append(list, fmt.Sprintf("to %s with timeout %s", strings.Join(names, " or "), r.Timeout))
	}
	if orNone {
		list = append(list, "to nobody")
	}
	return strings.Join(list, ", or ")
}
