// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"math"
	"net/http"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

var notFoundStatus = map[routev3.RouteAction_ClusterNotFoundResponseCode]int{
	routev3.RouteAction_NOT_FOUND:             http.StatusNotFound,
	routev3.RouteAction_INTERNAL_SERVER_ERROR: http.StatusInternalServerError,
}

// clusterChoice translates what an action says of clusters.
func (t *translator) clusterChoice(out *model.Route, action *routev3.RouteAction, owner routeOwner, path string) {
	out.NotFound = notFoundStatus[action.GetClusterNotFoundResponseCode()]
	asked := values.Criteria(action.GetMetadataMatch(), "")
	switch c := action.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		missing := t.clusterMissing(c.Cluster, path+".cluster")
		out.Clusters = []model.WeightedCluster{{Name: c.Cluster, Weight: 1, Criteria: asked, Missing: missing}}
	case *routev3.RouteAction_ClusterHeader:
		out.Clusters = []model.WeightedCluster{{Header: t.headers.Name(c.ClusterHeader, path+".cluster_header"), Weight: 1, Criteria: asked}}
	case *routev3.RouteAction_WeightedClusters:
		path += ".weighted_clusters"
		out.Clusters = t.weightedClusters(c.WeightedClusters, asked, owner, path)
		if name := c.WeightedClusters.GetHeaderName(); name != "" {
			out.DrawHeader = t.headers.Name(name, path+".header_name")
		}
		out.DrawByHash = c.WeightedClusters.GetUseHashPolicy().GetValue() && len(out.Hash) > 0
	default:
		t.p.Add(path, "needs cluster, cluster_header or weighted_clusters")
	}
}

func (t *translator) weightedClusters(w *routev3.WeightedCluster, asked model.Metadata, owner routeOwner, path string) []model.WeightedCluster {
	var out []model.WeightedCluster
	var sum uint64
	for i, c := range w.GetClusters() {
		share := t.share(c, owner, problem.At(path+".clusters", i))
		share.Criteria = values.Criteria(c.GetMetadataMatch(), asked)
		sum += uint64(share.Weight)
		out = append(out, share)
	}
	if sum == 0 || sum > math.MaxUint32 {
		t.p.Add(path, "the weights sum to %d; they need a sum of 1 to %d", sum, uint32(math.MaxUint32))
	}
	return out
}

func (t *translator) share(c *routev3.WeightedCluster_ClusterWeight, owner routeOwner, path string) model.WeightedCluster {
	out := model.WeightedCluster{
		Name: c.GetName(), Weight: c.GetWeight().GetValue(), Changes: t.headers.Level(c, path),
		Host: t.host(c.GetHostRewriteLiteral(), path+".host_rewrite_literal"),
	}
	if own := t.filterLevel(c.GetTypedPerFilterConfig(), path); own != (filterLevel{}) {
		route, filters := t.routeFilters(owner.filters), t.routeFilters(append([]filterLevel{own}, owner.filters...))
		if filters != route {
			out.Filters = &filters
		}
	}
	if c.GetWeight() == nil {
		t.p.Add(path+".weight", "missing: write the share, or 0 for none")
	}
	switch {
	case c.GetClusterHeader() == "":
		out.Missing = t.clusterMissing(c.GetName(), path+".name")
	case c.GetName() != "":
		t.p.Add(path+".cluster_header", "set together with name, which Envoy refuses; keep one")
	default:
		out.Header = t.headers.Name(c.GetClusterHeader(), path+".cluster_header")
	}
	return out
}
