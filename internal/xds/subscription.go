// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"maps"
	"slices"
	"time"
)

// wants says whether a root's kind is asked for.
func (c *Client) wants(root Kind) bool { return slices.Contains(c.config.Roots, root) }

// change is a request that tells what has changed about the names that are asked for; nil: nothing that a server has to know. The lock is held.
func (c *Client) change(kind Kind, asked bool) *request {
	s := c.state
	if !asked && len(s.subscribed(kind)) == 0 {
		return nil // a first request without names would ask for all
	}
	if !c.config.Delta {
		return &request{names: s.subscribed(kind)}
	}
	r := &request{subscribe: slices.Sorted(maps.Keys(s.added[kind]))}
	if asked {
		r.unsubscribe = slices.Sorted(maps.Keys(s.dropped[kind]))
	}
	return r
}

// versionOf is the version in force of a kind, as the server knows it: each server has its own.
func (s *state) versionOf(kind Kind, server int) string {
	if s.source[kind] != server {
		return ""
	}
	return s.version[kind]
}

// versionFor is the version for a stream's first request. It is left out where a resource is missing: a server that sees its own version
// may take it that the client has everything.
func (s *state) versionFor(kind Kind, server int) string {
	if !kind.isRoot() {
		for _, e := range s.entries[kind] {
			if !e.unused && e.accepted.body == nil {
				return ""
			}
		}
	}
	return s.versionOf(kind, server)
}

// versionsFor is what is known at the beginning of a stream. A resource that another server gave has no version that this one knows, but is named:
// so this one can say that it does not exist.
func (s *state) versionsFor(kind Kind, server int) map[string]string {
	known := map[string]string{}
	for name, e := range s.entries[kind] {
		switch {
		case e.accepted.body == nil || e.withdrawn || e.unused:
		case e.source == server:
			known[name] = e.version
		default:
			known[name] = ""
		}
	}
	return known
}

// repeat paces refusals. A server of the state of the world may answer a refusal with the same response at once, as it sees that the client
// has another version than its own; without a pause both would do nothing else.
type repeat struct {
	version, fault string
	pauses         Backoff
	due            time.Time // when the refusal is to be sent; zero: none waits
}

// wait is how long the answer to a response has to wait: 0 unless it refuses what was refused just before.
func (p *repeat) wait(version, fault string) time.Duration {
	if fault == "" || fault != p.fault || version != p.version {
		*p = repeat{version: version, fault: fault, pauses: Backoff{First: 200 * time.Millisecond, Longest: 30 * time.Second}}
		return 0
	}
	pause := p.pauses.Next()
	p.due = time.Now().Add(pause)
	return pause
}

// pending is the refusal that waits.
func (p *repeat) pending() string {
	if p.due.IsZero() {
		return ""
	}
	return p.fault
}
