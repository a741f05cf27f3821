// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// original is a cluster whose endpoint is where the client meant to go.
type original struct {
	cluster *model.Cluster
	path    string
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
		if len(leading) != 1 || leading[0].Many.IsValid() || !leading[0].Address.IsValid() {
			t.checkFollowing(o)
			continue
		}
		to := o.cluster.EndpointFor(leading[0].Address)
		target := model.Target{Host: to.Addr().String(), Port: to.Port(), Weight: 1}
		o.cluster.Targets, o.cluster.Endpoints = []model.Target{target}, []model.Endpoint{target.At(to.Addr())}
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
