// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"

	"github.com/xlb-project/xlb/internal/model"
)

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
		addCriteria(action, only)
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
	addCriteria(share, c)
	addChanges(share, &c.Changes)
	if c.Filters != nil {
		addFilters(share, *c.Filters, route)
	}
	return share
}

// addCriteria adds metadata_match: that of a share is its own and the route's.
func addCriteria(o object, c *model.WeightedCluster) {
	if c.Criteria != "" {
		o["metadata_match"] = metadataObject(c.Criteria)
	}
}

// metadataObject is envoy.config.core.v3.Metadata.
func metadataObject(m model.Metadata) object {
	return object{"filter_metadata": object{"envoy.lb": json.RawMessage(m)}}
}

var subsetFallbacks = [...]string{
	model.NoFallback: "NO_FALLBACK", model.AnyEndpoint: "ANY_ENDPOINT", model.DefaultSubset: "DEFAULT_SUBSET",
	model.ClusterFallback: "NOT_DEFINED", model.KeysSubset: "KEYS_SUBSET",
}

// subsetsObject is envoy.config.cluster.v3.Cluster.LbSubsetConfig.
func subsetsObject(s *model.Subsets) object {
	o := object{"fallback_policy": subsetFallbacks[s.Fallback]}
	if s.Default != "" {
		o["default_subset"] = json.RawMessage(s.Default)
	}
	for name, set := range map[string]bool{
		"panic_mode_any": s.PanicAny, "list_as_any": s.ListAsAny, "locality_weight_aware": s.LocalityAware, "scale_locality_weight": s.ScaleLocality,
	} {
		if set {
			o[name] = true
		}
	}
	selectors := make([]object, 0, len(s.Selectors))
	for _, x := range s.Selectors {
		selector := object{"keys": x.Keys, "fallback_policy": subsetFallbacks[x.Fallback]}
		if len(x.FallbackKeys) > 0 {
			selector["fallback_keys_subset"] = x.FallbackKeys
		}
		selectors = append(selectors, selector)
	}
	o["subset_selectors"] = selectors
	return o
}
