// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"slices"
	"time"
)

// linger is how long a resource that nothing refers to any more is kept, and maxLinger how many of a kind at most. A server of the state of the
// world does not read a request that crosses a newer response of its own. So it may not notice that a name was given up, and when the name
// is wanted again it may not send the resource, since it has sent it once.
const (
	linger    = 15 * time.Second
	maxLinger = 4096
)

// hold counts references; what is referred to for the first time is asked for.
func (s *state) hold(kind Kind, names []string, now time.Time) {
	for _, name := range names {
		e := s.entries[kind][name]
		if e == nil {
			e = &entry{kind: kind, name: name, unused: true}
			s.entries[kind][name] = e
		}
		e.users++
		if !e.unused {
			continue
		}
		e.unused = false
		s.added[kind][name] = struct{}{}
		delete(s.dropped[kind], name)
		s.names[kind] = nil
		if s.patience > 0 && !e.settled() {
			s.await(e, now.Add(s.patience))
		}
	}
}

// await notes a deadline, which is the last one so far. Those that no longer matter go when they are the most.
func (s *state) await(e *entry, deadline time.Time) {
	if len(s.fetches) > 1024+2*(len(s.entries[Assignments])+len(s.entries[Routes])) {
		s.fetches = slices.DeleteFunc(s.fetches, fetch.done)
	}
	s.fetches = append(s.fetches, fetch{deadline, e})
}

// drop takes references back. What has none left is given up by the next sweep.
func (s *state) drop(kind Kind, names []string) {
	for _, name := range names {
		e := s.entries[kind][name]
		if e.users--; e.users == 0 {
			s.orphans = append(s.orphans, e)
		}
	}
}

// sweep gives up what nothing refers to. It is called when a response has been taken whole, so that a name that only moves from one
// root to another is neither given up nor asked for again.
func (s *state) sweep(now time.Time) {
	for _, e := range s.orphans {
		if e.users > 0 || e.gone || e.unused {
			continue
		}
		e.unused = true
		s.names[e.kind] = nil
		if _, untold := s.added[e.kind][e.name]; untold {
			delete(s.added[e.kind], e.name)
		} else {
			s.dropped[e.kind][e.name] = struct{}{}
		}
		if e.withdrawn || e.accepted.body == nil && e.refused == nil {
			s.forget(e)
			continue
		}
		s.lingering = append(s.lingering, fetch{now.Add(linger), e})
	}
	s.orphans = nil
	for len(s.lingering) > 0 && (len(s.lingering) > maxLinger || !s.lingering[0].deadline.After(now)) {
		if e := s.lingering[0].entry; e.unused && !e.gone {
			s.forget(e)
		}
		s.lingering = s.lingering[1:]
	}
}

// subscribed lists the names of a kind that are asked for, sorted. The list is not changed later.
func (s *state) subscribed(kind Kind) []string {
	if kind.isRoot() {
		return nil
	}
	if s.names[kind] == nil {
		names := make([]string, 0, len(s.entries[kind]))
		for name, e := range s.entries[kind] {
			if !e.unused {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		s.names[kind] = names
	}
	return s.names[kind]
}

// untold says whether the server does not know what is asked for.
func (s *state) untold(kind Kind) bool { return len(s.added[kind])+len(s.dropped[kind]) > 0 }

// told notes that the server knows what is asked for.
func (s *state) told(kind Kind) {
	s.added[kind], s.dropped[kind] = map[string]struct{}{}, map[string]struct{}{}
}
