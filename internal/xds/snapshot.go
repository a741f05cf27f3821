// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"maps"
	"slices"
	"time"
)

// firstAnswer bounds how long the first state may wait to be complete where FetchTimeout does not, and how long a server may take
// for its very first answer where there are others to ask (Envoy: the default of initial_fetch_timeout).
const firstAnswer = 15 * time.Second

// snapshot returns what is warm, and whether it differs from the snapshot before, which has to be the last one that was made.
func (s *state) snapshot(before Snapshot) (Snapshot, bool) {
	now, differs := before, false
	now.Changed = [kinds][]string{}
	for _, k := range every {
		held := now.of(k)
		if *held == nil {
			*held = map[string]Resource{}
		}
		made, changed := s.renew(k, *held)
		if len(changed) > 0 {
			*held, differs = made, true
			now.Changed[k] = changed
		}
		clear(s.dirty[k])
	}
	return now, differs
}

// renew makes a kind's map from the one before, if anything in it has changed, and names what.
func (s *state) renew(kind Kind, before map[string]Resource) (made map[string]Resource, changed []string) {
	for name := range s.dirty[kind] {
		e, was := s.entries[kind][name], before[name]
		var is Resource
		if e != nil && e.served.body != nil && (kind.isRoot() || e.shown > 0) {
			is = Resource{Name: e.name, Version: e.version, Body: e.served.body}
		}
		if same(is.Body, was.Body) {
			continue
		}
		if changed == nil {
			made = maps.Clone(before)
		}
		changed = append(changed, name)
		if is.Body == nil {
			delete(made, name)
		} else {
			made[name] = is
		}
	}
	return made, changed
}

// of is where a snapshot holds a kind.
func (s *Snapshot) of(kind Kind) *map[string]Resource {
	return [kinds]*map[string]Resource{&s.Clusters, &s.Assignments, &s.Listeners, &s.Routes}[kind]
}

// heard says whether a server has said anything.
func (s *state) heard() bool { return slices.Contains(s.answered[:], true) }

// complete says whether the server has said all that the first state needs: what there is, and what that refers to.
func (s *state) complete(roots []Kind) bool {
	for _, root := range roots {
		if !s.answered[root] {
			return false
		}
	}
	for _, kind := range every {
		for _, e := range s.entries[kind] {
			if !kind.isRoot() && !e.unused && !e.settled() && e.refused == nil {
				return false
			}
		}
	}
	return true
}
