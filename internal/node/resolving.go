// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"reflect"
	"slices"

	"github.com/xlb-project/xlb/internal/dns"
	"github.com/xlb-project/xlb/internal/model"
)

// resolving keeps the names of STRICT_DNS and LOGICAL_DNS clusters resolved. Node.updates guards it.
type resolving struct {
	n *Node
	// answers are the last ones, by cluster; they outlive a reload.
	answers map[string][]model.Endpoint
	// generation tells the resolver of the configuration in force from those before it.
	generation int
	cancel     context.CancelFunc
	// named are the clusters whose names are being resolved.
	named []*model.Cluster
	// missing clusters have not been looked up yet.
	missing map[string]bool
	// merged are clusters with their answers.
	merged map[string]mergedCluster
}

func newResolving(n *Node) *resolving {
	return &resolving{n: n, answers: map[string][]model.Endpoint{}, cancel: func() {}}
}

// follow resolves the names of another configuration from now on, and returns it with what is known already. Where the names are those of
// before the look-ups go on: changes of other things may come faster than answers.
func (r *resolving) follow(source *model.Config) *model.Config {
	merged := r.merge(source)
	var named []*model.Cluster
	for _, c := range merged.Clusters {
		if c.Discovery.Named() {
			named = append(named, c)
		}
	}
	if slices.EqualFunc(r.named, named, sameNames) {
		return merged
	}
	r.cancel()
	r.generation++
	r.named, r.missing = named, map[string]bool{}
	for _, c := range named {
		r.missing[c.Name] = true
	}
	if len(named) > 0 {
		r.start(named, r.generation)
	}
	return merged
}

// mergedCluster is a cluster with its answer.
type mergedCluster struct {
	source, out *model.Cluster
	answer      []model.Endpoint
}

// merge gives clusters their answers. One with the same answer as before is the same, for those who compare pointers.
func (r *resolving) merge(source *model.Config) *model.Config {
	cfg, now := dns.Merge(source, r.answers), map[string]mergedCluster{}
	for i, c := range cfg.Clusters {
		if c == source.Clusters[i] {
			continue
		}
		m, answer := r.merged[c.Name], r.answers[c.Name]
		if m.source != source.Clusters[i] || !slices.EqualFunc(m.answer, answer, func(a, b model.Endpoint) bool { return a == b }) {
			m = mergedCluster{source.Clusters[i], c, answer}
		}
		cfg.Clusters[i], now[c.Name] = m.out, m
	}
	r.merged = now
	return cfg
}

// sameNames reports whether two clusters ask the same, and make the same endpoints of the answers.
func sameNames(a, b *model.Cluster) bool {
	return a.Name == b.Name && a.Discovery == b.Discovery && a.DNSRefresh == b.DNSRefresh && reflect.DeepEqual(a.DNS, b.DNS) && reflect.DeepEqual(a.Targets, b.Targets)
}

func (r *resolving) start(named []*model.Cluster, generation int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	resolver := &dns.Resolver{
		Clusters: named,
		Log:      r.n.log,
		Changed: func(cluster string, endpoints []model.Endpoint) {
			r.changed(generation, cluster, endpoints)
		},
	}
	r.n.goes(func() { resolver.Run(ctx) })
}

// changed puts new endpoints in force.
func (r *resolving) changed(generation int, cluster string, endpoints []model.Endpoint) {
	r.n.updates.Lock()
	defer r.n.updates.Unlock()
	if generation != r.generation {
		return
	}
	r.answers[cluster] = endpoints
	delete(r.missing, cluster)
	if err := r.n.install(r.merge(r.n.source)); err != nil {
		r.n.log.Error("endpoints refused; the ones before stay in force", "cluster", cluster, "err", err)
	}
}

// settled reports whether every name has been looked up once.
func (r *resolving) settled() bool {
	r.n.updates.Lock()
	defer r.n.updates.Unlock()
	return len(r.missing) == 0
}

// stop ends the look-ups.
func (r *resolving) stop() {
	r.n.updates.Lock()
	defer r.n.updates.Unlock()
	r.generation++
	r.cancel()
}
