// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model"

var notFoundCodes = map[int]string{404: "NOT_FOUND", 500: "INTERNAL_SERVER_ERROR"}

// addClusters adds the fields of envoy.config.route.v3.RouteAction that choose a cluster.
func addClusters(action object, r *model.Route) {
	if code := notFoundCodes[r.NotFound]; code != "" {
		action["cluster_not_found_response_code"] = code
	}
	if only := &r.Clusters[0]; len(r.Clusters) == 1 && only.Host == "" && only.Changes.IsZero() && only.Filters == nil {
		if only.Header != "" {
			action["cluster_header"] = only.Header
		} else {
			action["cluster"] = only.Name
		}
		return
	}
	shares := make([]object, 0, len(r.Clusters))
	for i := range r.Clusters {
		shares = append(shares, shareObject(&r.Clusters[i], r.Filters))
	}
	weighted := object{"clusters": shares}
	if r.DrawHeader != "" {
		weighted["header_name"] = r.DrawHeader
	}
	action["weighted_clusters"] = weighted
}

// shareObject is envoy.config.route.v3.WeightedCluster.ClusterWeight.
func shareObject(c *model.WeightedCluster, route model.RouteFilters) object {
	share := object{"weight": c.Weight}
	if c.Header != "" {
		share["cluster_header"] = c.Header
	} else {
		share["name"] = c.Name
	}
	if c.Host != "" {
		share["host_rewrite_literal"] = c.Host
	}
	addChanges(share, &c.Changes)
	if c.Filters != nil {
		addFilters(share, *c.Filters, route)
	}
	return share
}
