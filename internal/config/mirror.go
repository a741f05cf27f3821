// SPDX-License-Identifier: Apache-2.0

package config

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// mirrors translates one level's policies, without those that copy nothing.
func (t *translator) mirrors(in []*routev3.RouteAction_RequestMirrorPolicy, path string) []model.Mirror {
	var out []model.Mirror
	for i, p := range in {
		place := problem.At(path+".request_mirror_policies", i)
		m := model.Mirror{
			Cluster: p.GetCluster(), KeepHost: p.GetDisableShadowHostSuffixAppend(),
			Host: t.host(p.GetHostRewriteLiteral(), place+".host_rewrite_literal"),
		}
		switch {
		case p.GetClusterHeader() == "":
			t.clusterMissing(m.Cluster, place+".cluster")
		case m.Cluster != "":
			t.p.Add(place+".cluster_header", "set together with cluster, which Envoy refuses; keep one")
		default:
			m.Header = t.headerName(p.GetClusterHeader(), place+".cluster_header")
		}
		if f := p.GetRuntimeFraction(); f != nil {
			m.Share = fraction(f.GetDefaultValue())
		}
		if !m.Share.Never() {
			out = append(out, m)
		}
	}
	return out
}
