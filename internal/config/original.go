// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	originalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// original is a cluster whose endpoint is where the client meant to go.
type original struct {
	cluster *model.Cluster
	path    string
	// port in place of the client's, unless it is 0.
	port uint16
}

// originalCluster notes a cluster of type ORIGINAL_DST.
func (t *translator) originalCluster(out *model.Cluster, c *clusterv3.Cluster, path string) {
	if provided := c.GetLbPolicy() == clusterv3.Cluster_CLUSTER_PROVIDED; provided != (out.Discovery == model.OriginalDst) {
		t.p.add(path+".lb_policy", "CLUSTER_PROVIDED and type ORIGINAL_DST belong together; write both or neither")
	}
	if out.Discovery != model.OriginalDst {
		return
	}
	if c.GetLoadAssignment() != nil {
		t.p.add(path+".load_assignment", "set for a cluster of type ORIGINAL_DST, which Envoy refuses; remove it")
	}
	if len(c.GetHealthChecks()) > 0 {
		t.p.add(path+".health_checks", "not supported for ORIGINAL_DST; use STATIC with the address")
	}
	// One beyond 65535 is a violation of Envoy's constraint, reported as such.
	port := uint16(c.GetOriginalDstLbConfig().GetUpstreamPortOverride().GetValue())
	if why := t.speechOf(c).leavesOut(nil, nil); why != nil {
		// Whoever it would be.
		out.LeftOut = []model.LeftOut{{Host: "the original destination", Port: port, Reason: why.Reason, Socket: why.Socket}}
		return
	}
	t.originals = append(t.originals, original{out, path, port})
}

// tellsOriginal reports a listener that says, in Envoy, where its clients meant to go.
func (t *translator) tellsOriginal(l *listenerv3.Listener, path string) bool {
	tells := false
	for i, f := range l.GetListenerFilters() {
		tells = t.unpack(f.GetTypedConfig(), &originalv3.OriginalDst{}, at(path+".listener_filters", i)+".typed_config", "OriginalDst") || tells
	}
	return tells
}

// resolveOriginals gives the clusters of type ORIGINAL_DST their endpoint. A client connects to the address of a listener and nowhere else,
// so a cluster to which one listener leads has one.
func (t *translator) resolveOriginals(cfg *model.Config) {
	for _, o := range t.originals {
		var names []string
		var to netip.AddrPort
		for _, l := range cfg.Listeners {
			if !leadsTo(l, o.cluster.Name) {
				continue
			}
			if !t.telling[l] {
				t.p.add(o.path+".type", "the listener %q leads to this cluster without the listener filter OriginalDst, so Envoy knows no address; add it to listener_filters", l.Name)
			}
			names, to = append(names, l.Name), l.Address
		}
		if len(names) > 1 {
			t.p.add(o.path+".type", "several listeners lead to this cluster: %s; XLB needs an ORIGINAL_DST cluster for each", strings.Join(names, ", "))
		}
		if len(names) != 1 || !to.IsValid() {
			continue
		}
		if o.port != 0 {
			to = netip.AddrPortFrom(to.Addr(), o.port)
		}
		o.cluster.Targets = []model.Target{{Host: to.Addr().String(), Port: to.Port(), Weight: 1}}
		o.cluster.Endpoints = staticEndpoints(o.cluster.Targets)
	}
}

// leadsTo reports whether requests or connections of a listener may go to a cluster. A header may name any.
func leadsTo(l *model.Listener, cluster string) bool {
	leads := func(w model.WeightedCluster) bool { return w.Name == cluster || w.Header != "" }
	if l.TCP != nil && slices.ContainsFunc(l.TCP.Clusters, leads) {
		return true
	}
	for _, host := range l.Routes.VirtualHosts {
		for _, r := range host.Routes {
			if slices.ContainsFunc(r.Clusters, leads) || slices.ContainsFunc(r.Mirrors, func(m model.Mirror) bool { return m.Cluster == cluster || m.Header != "" }) {
				return true
			}
		}
	}
	return false
}
