// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"maps"
	"time"
)

// firstAnswer bounds how long the first state may wait to be complete where FetchTimeout does not, and how long a server may take
// for its very first answer where there are others to ask (Envoy: the default of initial_fetch_timeout).
const firstAnswer = 15 * time.Second

// snapshot returns what is warm, and whether it differs from the snapshot before.
func (s *state) snapshot(before Snapshot) (Snapshot, bool) {
	now, differs := before, false
	for _, k := range every {
		if !s.changed[k] {
			continue
		}
		s.changed[k] = false
		made, held := s.warmOf(k), now.of(k)
		if *held != nil && maps.EqualFunc(made, *held, func(a, b Resource) bool { return a.Body == b.Body }) {
			continue
		}
		differs = differs || *held != nil || len(made) > 0
		*held = made
	}
	return now, differs
}

// of is where a snapshot holds a kind.
func (s *Snapshot) of(kind Kind) *map[string]Resource {
	return [kinds]*map[string]Resource{&s.Clusters, &s.Assignments, &s.Listeners, &s.Routes}[kind]
}

// warmOf lists what is served of a kind: of roots, and of the others what served roots refer to.
func (s *state) warmOf(kind Kind) map[string]Resource {
	made := map[string]Resource{}
	add := func(e *entry) {
		if e.served.body != nil {
			made[e.name] = Resource{Name: e.name, Version: e.version, Body: e.served.body}
		}
	}
	if kind.isRoot() {
		for _, e := range s.entries[kind] {
			add(e)
		}
		return made
	}
	for _, root := range s.entries[kind-1] { // a child's kind follows its root's
		for _, name := range root.served.references {
			add(s.entries[kind][name])
		}
	}
	return made
}

// complete says whether the server has said all that the first state needs: what there is, and what that refers to.
func (s *state) complete(roots []Kind) bool {
	for _, root := range roots {
		if !s.answered[root] {
			return false
		}
		for _, e := range s.entries[root.child()] {
			if !e.unused && !e.settled() && e.refused == nil {
				return false
			}
		}
	}
	return true
}
