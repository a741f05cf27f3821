// SPDX-License-Identifier: Apache-2.0

// Package resolve keeps the names of clusters resolved, and puts each answer in force.
package resolve

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/dns"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// Config is what Names work with. All of it is needed.
type Config struct {
	Logger *slog.Logger
	// Lock is held while a configuration changes.
	Lock sync.Locker
	// Source is the configuration whose names are resolved. It is called with Lock held.
	Source func() *model.Config
	// Activate puts a configuration in force whose names are resolved. It is called with Lock held.
	Activate func(*model.Config) error
	// Spawn calls f in a goroutine of its own.
	Spawn func(f func())
}

// Names keeps the names of STRICT_DNS and LOGICAL_DNS clusters resolved. Config.Lock guards it.
type Names struct {
	cfg      Config
	resolver *dns.Resolver
	// answers are the last ones, by cluster; they outlive a reload.
	answers map[string][]model.Endpoint
	// generation tells the look-ups for the configuration in force from those before them.
	generation int
	cancel     context.CancelFunc
	// named are the clusters whose names are being resolved.
	named []*model.Cluster
	// missing are clusters of which nothing is known yet.
	missing map[string]bool
	// merged are clusters with their answers.
	merged map[string]mergedCluster
	// refused are answers, by cluster, for which there was no room; they are tried again while there are any.
	refused  map[string][]model.Endpoint
	retrying *time.Timer
}

// refusedPace is how long an answer waits that was refused: endpoints that have left give their room up within seconds.
const refusedPace = 10 * time.Second

// New returns Names that are not resolved yet. Stop is to be called.
func New(cfg Config) *Names {
	return &Names{cfg: cfg, resolver: &dns.Resolver{Log: cfg.Logger}, answers: map[string][]model.Endpoint{}, refused: map[string][]model.Endpoint{}, cancel: func() {}}
}

// Resolve resolves the names of another configuration from now on, and returns it with what is known already. Where the names are those of
// before the look-ups go on: changes of other things may come faster than answers. Needs Config.Lock.
func (r *Names) Resolve(source *model.Config) *model.Config {
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
	clear(r.refused)
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
func (r *Names) merge(source *model.Config) *model.Config {
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

func (r *Names) start(named []*model.Cluster, generation int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.cfg.Spawn(func() {
		r.resolver.Run(ctx, named, func(cluster string, endpoints []model.Endpoint) { r.changed(generation, cluster, endpoints) })
	})
}

// changed puts new endpoints in force.
func (r *Names) changed(generation int, cluster string, endpoints []model.Endpoint) {
	r.cfg.Lock.Lock()
	defer r.cfg.Lock.Unlock()
	if generation != r.generation {
		return
	}
	delete(r.missing, cluster)
	delete(r.refused, cluster)
	if n := len(endpoints); n > model.MaxResolved {
		r.cfg.Logger.Error("endpoints refused; the ones before stay in force", "cluster", cluster,
			"err", fmt.Sprintf("its names have %d addresses; XLB takes up to %d of a cluster: have them answer with fewer", n, model.MaxResolved))
		return
	}
	if err := r.put(cluster, endpoints); shutdown.IsRefusal(err) {
		r.cfg.Logger.Error("endpoints refused; the ones before stay in force", "cluster", cluster, "addresses", len(endpoints), "err", err)
		r.refused[cluster] = endpoints
		r.retryLater(generation)
	}
}

// put puts an answer in force. After an error the one before is what is known: it goes with whatever else is put in force. Needs Config.Lock.
func (r *Names) put(cluster string, endpoints []model.Endpoint) error {
	before, had := r.answers[cluster]
	r.answers[cluster] = endpoints
	err := r.cfg.Activate(r.merge(r.cfg.Source()))
	if err == nil {
		return nil
	}
	if had {
		r.answers[cluster] = before
	} else {
		delete(r.answers, cluster)
	}
	return err
}

// retryLater tries again what was refused. Needs Config.Lock.
func (r *Names) retryLater(generation int) {
	if r.retrying != nil {
		r.retrying.Stop()
	}
	r.retrying = time.AfterFunc(refusedPace, func() {
		r.cfg.Lock.Lock()
		defer r.cfg.Lock.Unlock()
		if generation != r.generation {
			return
		}
		for _, cluster := range slices.Sorted(maps.Keys(r.refused)) {
			if err := r.put(cluster, r.refused[cluster]); err == nil {
				r.cfg.Logger.Info("endpoints that were refused are in force", "cluster", cluster)
				delete(r.refused, cluster)
			}
		}
		if len(r.refused) > 0 {
			r.retryLater(generation)
		}
	})
}

// Resolved reports whether something is known of each cluster: one of its names has been looked up, as Envoy wants it.
func (r *Names) Resolved() bool {
	r.cfg.Lock.Lock()
	defer r.cfg.Lock.Unlock()
	return len(r.missing) == 0
}

// Stop ends the look-ups.
func (r *Names) Stop() {
	r.cfg.Lock.Lock()
	defer r.cfg.Lock.Unlock()
	r.generation++
	r.cancel()
	if r.retrying != nil {
		r.retrying.Stop()
	}
}
