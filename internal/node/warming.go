// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// As in Envoy a cluster warms until its secrets have come, or were refused, or their initial_fetch_timeout is over. Meanwhile the cluster of that name
// stays which is in force, with its own endpoints; there is none where it is new.

// awaiting is a cluster that is not in force, and that has connections secured by secrets. It is followed until it is in force: what has come for it
// must not be forgotten before.
type awaiting struct {
	contexts []*model.UpstreamTLS
	// warm is when its secrets had come; zero: they have not.
	warm time.Time
}

// isOf reports whether a cluster is what was awaited.
func (a *awaiting) isOf(c *model.Cluster) bool {
	return !slices.ContainsFunc(a.contexts, func(t *model.UpstreamTLS) bool {
		return !slices.ContainsFunc(c.Sockets, func(other *model.UpstreamTLS) bool { return other.Key == t.Key })
	})
}

// ready reports whether a cluster need not wait for its secrets; if it has to, they are asked for. A nil body says that there is no such cluster.
func (s *secrets) ready(b *config.Bootstrap, name string, body *anypb.Any) bool {
	if body == nil || b.IsStatic(config.Clusters, name) {
		s.giveUp(name)
		return true
	}
	return s.await(name, b.Secured(body))
}

// giveUp awaits a cluster no longer. What it needed alone is asked for until the next configuration.
func (s *secrets) giveUp(name string) {
	s.asks.Lock()
	defer s.asks.Unlock()
	s.dropLocked(name)
}

func (s *secrets) dropLocked(name string) {
	if s.awaiting[name] == nil {
		return
	}
	delete(s.awaiting, name)
	close(s.moved)
	s.moved = make(chan struct{})
}

// await asks for the secrets of a cluster, and reports whether nothing of them is waited for.
func (s *secrets) await(name string, contexts []*model.UpstreamTLS) bool {
	if len(contexts) == 0 {
		s.giveUp(name)
		return true
	}
	s.asks.Lock()
	defer s.asks.Unlock()
	a := &awaiting{contexts: contexts}
	s.awaiting[name] = a
	if !s.store.Knows(contexts) { // thousands of clusters have the same secrets
		s.askLocked()
	}
	return s.isWarmLocked(a)
}

// isWarmLocked reports whether no secret is waited for, and otherwise has it looked for in time.
func (s *secrets) isWarmLocked(a *awaiting) bool {
	names, again := s.store.Pending(a.contexts, time.Now())
	switch {
	case len(names) == 0 && a.warm.IsZero():
		a.warm = time.Now()
	case len(names) > 0 && !again.IsZero():
		s.lookAgain(again)
	}
	return len(names) == 0
}

// come waits until no secret of a context is waited for, and reports whether ctx has not ended before.
func (s *secrets) come(ctx context.Context, tls *model.UpstreamTLS) bool {
	for {
		changed := s.store.Changed()
		names, again := s.store.Pending([]*model.UpstreamTLS{tls}, time.Now())
		if len(names) == 0 {
			return true
		}
		if !awaitNews(ctx, again, changed, nil) {
			return false
		}
	}
}

// longestLook is between two looks for secrets where nothing is heard of them: what nobody needs any more is not waited for either.
const longestLook = time.Second

// awaitNews waits for either channel to be closed, for that time if it is not zero, and for longestLook at most. It reports whether ctx has not ended before.
func awaitNews(ctx context.Context, at time.Time, changed, moved <-chan struct{}) bool {
	wait := longestLook
	if !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-moved:
	case <-timer.C:
	}
	return true
}

// lookAgain keeps the earliest time.
func (s *secrets) lookAgain(at time.Time) {
	for {
		select {
		case s.again <- at:
			return
		default:
		}
		select {
		case other := <-s.again:
			if other.Before(at) {
				at = other
			}
		default:
		}
	}
}

// thawed reports whether a cluster has become warm since this was asked last.
func (s *secrets) thawed() bool {
	s.asks.Lock()
	defer s.asks.Unlock()
	found := false
	for _, a := range s.awaiting {
		found = a.warm.IsZero() && s.isWarmLocked(a) || found
	}
	return found
}

// ---- of files ----

// warming are the clusters of a file that may be in force, by name. Node.updates guards it.
type warming map[string]*anypb.Any

// join is all that there is of dynamic resources, as far as it is warm; what the control plane sends is. Needs n.updates.
func (d *dynamic) join(b *config.Bootstrap) config.Resources {
	all := b.Join(d.served, d.read)
	if b.ClustersInFile() {
		all.Clusters = d.warmClusters(b, all.Clusters)
	}
	return all
}

// warmClusters is what is to be in force of the clusters of a file. Needs n.updates.
func (d *dynamic) warmClusters(b *config.Bootstrap, all map[string]*anypb.Any) map[string]*anypb.Any {
	if d.warming == nil {
		d.warming = warming{}
	}
	for name := range d.cold {
		if all[name] == nil {
			d.n.secrets.giveUp(name)
		}
	}
	maps.DeleteFunc(d.warming, func(name string, _ *anypb.Any) bool { return all[name] == nil })
	d.cold = map[string]bool{}
	for name, body := range all {
		switch {
		case d.warming[name] == body:
		case d.n.secrets.ready(b, name, body):
			d.warming[name] = body
		default:
			d.cold[name] = true
		}
	}
	return maps.Clone(d.warming)
}

// ---- of the bootstrap ----

// hold is a configuration in which those clusters of the bootstrap stay as they are in force that have changed and wait for their secrets. Of others
// only the warm ones come here. Needs n.updates.
func (n *Node) hold(wanted *model.Config) *model.Config {
	for c := range n.held {
		n.secrets.giveUp(c.Name)
	}
	n.held = nil
	if n.source == nil || n.source == wanted {
		return wanted
	}
	changed := model.ChangeOf(n.source.Clusters, wanted.Clusters)
	before := map[string]*model.Cluster{}
	for _, c := range changed.Removed {
		before[c.Name] = c
	}
	for _, c := range changed.Added {
		if before[c.Name] == nil || len(secretive(c.Sockets)) == 0 || n.secrets.await(c.Name, secretive(c.Sockets)) {
			continue
		}
		if n.held == nil {
			n.held = map[*model.Cluster]*model.Cluster{}
		}
		n.held[c] = before[c.Name]
	}
	if n.held == nil {
		return wanted
	}
	out := *wanted
	out.Clusters = slices.Clone(wanted.Clusters)
	for i, c := range out.Clusters {
		if old := n.held[c]; old != nil {
			out.Clusters[i] = old
		}
	}
	return &out
}

// secretive are those that need secrets.
func secretive(contexts []*model.UpstreamTLS) []*model.UpstreamTLS {
	return slices.DeleteFunc(slices.Clone(contexts), func(t *model.UpstreamTLS) bool { return len(t.Secrets()) == 0 })
}

// ---- going on ----

// followSecrets puts clusters in force that have become warm, until ctx ends.
func (n *Node) followSecrets(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := time.Time{}
	changed := n.secrets.store.Changed()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-n.secrets.again:
			if next.IsZero() || at.Before(next) {
				next = at
				timer.Reset(time.Until(at))
			}
			continue
		case <-timer.C:
			next = time.Time{}
		case <-changed:
			changed = n.secrets.store.Changed()
		}
		if n.secrets.thawed() {
			n.rewarm()
		}
	}
}

// rewarm puts clusters in force that have become warm.
func (n *Node) rewarm() {
	if n.dynamic != nil && n.dynamic.client != nil {
		n.dynamic.client.Again()
	}
	n.updates.Lock()
	defer n.updates.Unlock()
	var err error
	switch {
	case n.dynamic != nil && len(n.dynamic.cold)+len(n.held) > 0:
		n.dynamic.others = true
		err = n.dynamic.install()
	case len(n.held) > 0:
		err = n.apply(n.wanted)
	}
	if shutdown.IsRefusal(err) {
		n.log.Error("clusters whose secrets have come were not put in force; the configuration before stays", "err", err)
	}
}

// settle bounds how long a cluster that is warm may take to be in force.
const settle = 5 * time.Second

// awaitAll returns when all secrets have come, or the time for that is up, or ctx ends: as in Envoy nothing is served before.
func (s *secrets) awaitAll(ctx context.Context) {
	for ctx.Err() == nil {
		changed := s.store.Changed()
		missing, again, moved := s.missing()
		if len(missing) == 0 {
			return
		}
		s.n.setReady(errors.New("starting: waiting for the secrets " + strings.Join(missing, ", ")))
		awaitNews(ctx, again, changed, moved)
	}
}

// missing are the secrets that are waited for, and those of clusters that are about to be put in force, which moved tells of. Again is as of mtls.Store.Pending.
func (s *secrets) missing() (names []string, again time.Time, moved <-chan struct{}) {
	s.asks.Lock()
	defer s.asks.Unlock()
	names, again = s.store.Pending(s.inForce, time.Now())
	for _, a := range s.awaiting {
		if !a.warm.IsZero() && time.Since(a.warm) > settle {
			continue
		}
		for _, c := range a.contexts {
			for _, from := range c.Secrets() {
				names = append(names, from.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), again, s.moved
}
