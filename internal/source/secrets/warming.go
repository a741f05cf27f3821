// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
)

// As in Envoy a cluster warms until its secrets have come, or were refused, or their initial_fetch_timeout is over. Meanwhile the cluster of that name
// stays which is in force, with its own endpoints; before a new cluster there is no cluster of its name.

// warmingCluster is a cluster that is not in force, and that has connections secured by secrets. The daemon asks for its secrets until it is in force: what
// has come for it must not be forgotten before.
type warmingCluster struct {
	contexts []*model.UpstreamTLS
	// warm is when its secrets had come; zero: they have not.
	warm time.Time
}

// isOf reports whether a cluster is the one that warms.
func (a *warmingCluster) isOf(c *model.Cluster) bool {
	return !slices.ContainsFunc(a.contexts, func(t *model.UpstreamTLS) bool {
		return !slices.ContainsFunc(c.Sockets, func(other *model.UpstreamTLS) bool { return other.Key == t.Key })
	})
}

// Ready reports whether a dynamic cluster need not wait for its secrets; otherwise it asks for them. A nil body says that there is no such cluster.
func (s *Secrets) Ready(b *config.Bootstrap, name string, body *anypb.Any) bool {
	if body == nil || b.IsStatic(config.Clusters, name) {
		s.Abandon(name)
		return true
	}
	return s.IsWarm(name, b.Secured(body))
}

// Abandon waits for a cluster no longer. The daemon asks for what it needed alone until the next configuration.
func (s *Secrets) Abandon(name string) {
	s.asks.Lock()
	defer s.asks.Unlock()
	s.dropLocked(name)
}

func (s *Secrets) dropLocked(name string) {
	if s.warming[name] == nil {
		return
	}
	delete(s.warming, name)
	close(s.moved)
	s.moved = make(chan struct{})
}

// IsWarm asks for the secrets of a cluster that is about to be in force, and reports whether it need not wait for any of them.
func (s *Secrets) IsWarm(name string, contexts []*model.UpstreamTLS) bool {
	if len(contexts) == 0 {
		s.Abandon(name)
		return true
	}
	s.asks.Lock()
	defer s.asks.Unlock()
	a := &warmingCluster{contexts: contexts}
	s.warming[name] = a
	if !s.store.Knows(contexts) { // thousands of clusters have the same secrets
		s.askLocked()
	}
	return s.isWarmLocked(a)
}

// isWarmLocked reports whether no secret is waited for, and otherwise has it looked for in time.
func (s *Secrets) isWarmLocked(a *warmingCluster) bool {
	names, again := s.store.Pending(a.contexts, time.Now())
	switch {
	case len(names) == 0 && a.warm.IsZero():
		a.warm = time.Now()
	case len(names) > 0 && !again.IsZero():
		s.lookAgain(again)
	}
	return len(names) == 0
}

// Await waits until all secrets of a context have come, were refused, or are late. It reports whether ctx has not ended before.
func (s *Secrets) Await(ctx context.Context, tls *model.UpstreamTLS) bool {
	for {
		changed := s.store.Changed()
		names, again := s.store.Pending([]*model.UpstreamTLS{tls}, time.Now())
		if len(names) == 0 {
			return true
		}
		if !awaitChange(ctx, again, changed, nil) {
			return false
		}
	}
}

// longestLook is between two looks for secrets while none come: one that no cluster needs any more is not waited for either.
const longestLook = time.Second

// awaitChange waits for either channel to be closed, for that time if it is not zero, and for longestLook at most. It reports whether ctx has not ended before.
func awaitChange(ctx context.Context, at time.Time, changed, moved <-chan struct{}) bool {
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
func (s *Secrets) lookAgain(at time.Time) {
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

// hasThawed reports whether a cluster has become warm since the last call.
func (s *Secrets) hasThawed() bool {
	s.asks.Lock()
	defer s.asks.Unlock()
	found := false
	for _, a := range s.warming {
		found = a.warm.IsZero() && s.isWarmLocked(a) || found
	}
	return found
}

// WithSecrets are the contexts that need secrets.
func WithSecrets(contexts []*model.UpstreamTLS) []*model.UpstreamTLS {
	return slices.DeleteFunc(slices.Clone(contexts), func(t *model.UpstreamTLS) bool { return len(t.Secrets()) == 0 })
}

// Run calls thawed whenever clusters have become warm, until ctx ends.
func (s *Secrets) Run(ctx context.Context, thawed func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := time.Time{}
	changed := s.store.Changed()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-s.again:
			if next.IsZero() || at.Before(next) {
				next = at
				timer.Reset(time.Until(at))
			}
			continue
		case <-timer.C:
			next = time.Time{}
		case <-changed:
			changed = s.store.Changed()
		}
		if s.hasThawed() {
			thawed()
		}
	}
}

// activationLimit bounds how long a cluster that is warm may take to be in force.
const activationLimit = 5 * time.Second

// AwaitAll returns when all secrets have come, or the time for that is up, or ctx ends: as in Envoy nothing is served before. It reports what it waits
// for.
func (s *Secrets) AwaitAll(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		changed := s.store.Changed()
		missing, again, moved := s.missing()
		if len(missing) == 0 {
			return
		}
		report(errors.New("starting: waiting for the secrets " + strings.Join(missing, ", ")))
		awaitChange(ctx, again, changed, moved)
	}
}

// missing are the secrets that are waited for, and those of clusters that are about to be put in force, whose end closes moved. Again is as of
// mtls.Store.Pending.
func (s *Secrets) missing() (names []string, again time.Time, moved <-chan struct{}) {
	s.asks.Lock()
	defer s.asks.Unlock()
	names, again = s.store.Pending(s.active, time.Now())
	for _, a := range s.warming {
		if !a.warm.IsZero() && time.Since(a.warm) > activationLimit {
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
