// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

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
func (t *translator) originalCluster(out *model.Cluster, c *clusterv3.Cluster, speech *speech, path string) {
	if provided := c.GetLbPolicy() == clusterv3.Cluster_CLUSTER_PROVIDED; provided != (out.Discovery == model.OriginalDst) {
		t.p.Add(path+".lb_policy", "CLUSTER_PROVIDED and type ORIGINAL_DST belong together; write both or neither")
	}
	if out.Discovery != model.OriginalDst {
		return
	}
	if c.GetLoadAssignment() != nil {
		t.p.Add(path+".load_assignment", "set for a cluster of type ORIGINAL_DST, which Envoy refuses; remove it")
	}
	if len(c.GetHealthChecks()) > 0 {
		t.p.Add(path+".health_checks", "not supported for ORIGINAL_DST; use STATIC with the address")
	}
	// One beyond 65535 is a violation of Envoy's constraint, reported as such.
	port := uint16(c.GetOriginalDstLbConfig().GetUpstreamPortOverride().GetValue())
	expects := speech.of(nil, nil)
	if expects.tls != nil {
		expects.why = &model.LeftOut{Reason: model.LeftOutTLS}
	}
	if why := expects.why; why != nil {
		// Whoever it would be.
		out.LeftOut = []model.LeftOut{{Host: "the original destination", Port: port, Reason: why.Reason, Socket: why.Socket}}
		return
	}
	t.originals = append(t.originals, original{out, path, port})
}

// resolveOriginals gives the clusters of type ORIGINAL_DST their endpoint: one, where all clients connect to the same address. Otherwise the slow
// path finds out for each of them.
func (t *translator) resolveOriginals(cfg *model.Config) {
	for _, o := range t.originals {
		var leading []*model.Listener
		for _, l := range cfg.Listeners {
			if !leadsTo(l, o.cluster.Name) {
				continue
			}
			if !t.telling[l] {
				t.p.Add(o.path+".type", "the listener %q leads to this cluster without the listener filter OriginalDst, so Envoy knows no address; add it to listener_filters", l.Name)
			}
			leading = append(leading, l)
		}
		o.cluster.OriginalPort = o.port
		if len(leading) != 1 || leading[0].Many.IsValid() || !leading[0].Address.IsValid() {
			t.checkFollowing(o)
			continue
		}
		to := o.cluster.EndpointFor(leading[0].Address)
		o.cluster.Targets = []model.Target{{Host: to.Addr().String(), Port: to.Port(), Weight: 1}}
		o.cluster.Endpoints = staticEndpoints(o.cluster.Targets)
	}
}

// checkFollowing refuses what is known of endpoints that stay.
func (t *translator) checkFollowing(o original) {
	if o.cluster.Outlier != nil {
		t.p.Add(o.path+".outlier_detection", "not supported for ORIGINAL_DST where clients connect to several addresses; remove the field")
	}
}

// leadsTo reports whether requests or connections of a listener may go to a cluster. A header may name any.
func leadsTo(l *model.Listener, cluster string) bool {
	leads := func(w model.WeightedCluster) bool { return w.Name == cluster || w.Header != "" }
	for _, p := range l.Proxies() {
		if slices.ContainsFunc(p.Clusters, leads) {
			return true
		}
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
