// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"math"

	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// tcpProxyOf finds the one filter of the filter chain, where it is the TCP proxy.
func (t *translator) tcpProxyOf() (*tcpv3.TcpProxy, string) {
	filters := t.chosen.chain.GetFilters()
	if len(filters) != 1 {
		return nil, ""
	}
	proxy, content := &tcpv3.TcpProxy{}, filters[0].GetTypedConfig()
	path := t.chosen.path + ".filters[0].typed_config"
	if !content.MessageIs(proxy) || !t.Unpack(content, proxy, path, "TcpProxy") {
		return nil, ""
	}
	return proxy, path
}

func (t *translator) tcpProxy(p *tcpv3.TcpProxy, path string) *model.TCPProxy {
	out := &model.TCPProxy{ConnectAttempts: 1, IdleTimeout: t.Duration(p.GetIdleTimeout(), 0, path+".idle_timeout")}
	if n := p.GetMaxConnectAttempts(); n != nil {
		out.ConnectAttempts = n.GetValue()
	}
	switch c := p.GetClusterSpecifier().(type) {
	case *tcpv3.TcpProxy_Cluster:
		missing := t.in.Clusters.Missing(t.p, c.Cluster, path+".cluster", t.in.Dynamic)
		out.Clusters = []model.WeightedCluster{{Name: c.Cluster, Weight: 1, Missing: missing}}
	case *tcpv3.TcpProxy_WeightedClusters:
		out.Clusters = t.tcpShares(c.WeightedClusters, path+".weighted_clusters")
	default:
		t.p.Add(path, "needs cluster or weighted_clusters")
	}
	return out
}

func (t *translator) tcpShares(w *tcpv3.TcpProxy_WeightedCluster, path string) []model.WeightedCluster {
	var out []model.WeightedCluster
	var sum uint64
	for i, c := range w.GetClusters() {
		missing := t.in.Clusters.Missing(t.p, c.GetName(), problem.At(path+".clusters", i)+".name", t.in.Dynamic)
		out = append(out, model.WeightedCluster{Name: c.GetName(), Weight: c.GetWeight(), Missing: missing})
		sum += uint64(c.GetWeight())
	}
	if sum > math.MaxUint32 {
		t.p.Add(path, "the weights sum to %d; they need a sum of 1 to %d", sum, uint32(math.MaxUint32))
	}
	return out
}
