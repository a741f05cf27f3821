// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// maxFault bounds the text that tells a server what was refused, in bytes; what does not fit is counted.
const maxFault = 64 << 10

// judgement is what becomes of one resource of a response.
type judgement struct {
	*received
	references []string
	reason     reason // of a refusal
	brief      bool   // no more is known of that than its beginning
	known      bool   // it was judged before, or there is nothing to judge
}

// take judges a response and takes of it what is good. Its error says what was refused, for the server.
func (c *Client) take(kind Kind, r *response, server int) error {
	if r.fault != nil {
		return r.fault
	}
	c.mu.Lock()
	judgements := c.state.preview(kind, r)
	c.mu.Unlock()

	// Outside the lock: it may take long.
	for i := range judgements {
		if j := &judgements[i]; !j.known {
			j.references, j.reason = c.check(kind, j.received)
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if r.whole && kind.isRoot() && !r.heartbeatsOnly() {
		c.state.keepOnly(kind, r.resources, now)
		c.state.notKept[kind] = 0
	}
	notKept := c.state.notKept[kind]
	for i := range judgements {
		c.state.apply(kind, &judgements[i], server, now)
	}
	for _, name := range r.removed {
		if e := c.state.entries[kind][name]; e != nil {
			c.state.remove(e, now)
		}
	}
	if notKept == 0 && c.state.notKept[kind] > 0 {
		c.log.Warn("more resources were refused than are kept; of the others their number is kept alone", "kind", kind.String(), "kept", maxRefused)
	}
	c.state.sweep(now)
	c.state.answered[kind] = true
	err := refusal(judgements)
	if err == nil {
		c.state.version[kind], c.state.source[kind] = r.version, server
	}
	return err
}

// check asks whether a resource is good. One that makes Check panic, or the text of its reason, is refused: a server must not end the daemon.
func (c *Client) check(kind Kind, r *received) (references []string, refused reason) {
	defer func() {
		if fault := recover(); fault != nil {
			c.log.Error("a resource of the management server could not be judged", "kind", kind.String(), "name", r.name,
				"error", fmt.Sprint(fault), "stack", string(debug.Stack()))
			references, refused = nil, reasonOf(errors.New("internal error while it was judged"))
		}
	}()
	name, err := nameOf(r.body)
	if err == nil && name != r.name {
		err = fmt.Errorf("its body has the name %q", name)
	}
	if err == nil {
		references, err = c.config.Check(kind, r.name, r.body)
	}
	if err != nil {
		return nil, reasonOf(err)
	}
	return references, reason{}
}

// preview says which resources of a response are to be judged. Those that nobody has asked for are left out. Of those that were refused, and of which
// little is kept, as many are judged again as there is room for.
func (s *state) preview(kind Kind, r *response) []judgement {
	room := maxRefused - s.refusals
	judgements := make([]judgement, 0, len(r.resources))
	for i := range r.resources {
		j := judgement{received: &r.resources[i]}
		e := s.entries[kind][j.name]
		switch {
		case e == nil && !kind.isRoot():
			continue
		case j.body == nil:
			j.known = true
			current := e != nil && e.accepted.body != nil && (e.version == j.version || r.whole && s.version[kind] == r.version)
			if !current {
				j.reason.text = fmt.Sprintf("heartbeat of version %q, which is not in force", j.version)
			}
		case e == nil:
		case e.refused != nil && e.refused.isOf(j.body):
			if e.refused.brief && room > 0 {
				room--
				break
			}
			j.known, j.reason, j.brief = true, e.refused.reason, e.refused.brief
		case same(e.accepted.body, j.body):
			j.known, j.references = true, e.accepted.references
		}
		judgements = append(judgements, j)
	}
	return judgements
}

// apply takes a resource that has been judged.
func (s *state) apply(kind Kind, j *judgement, server int, now time.Time) {
	e := s.entries[kind][j.name]
	if e == nil && !kind.isRoot() {
		return // no longer asked for
	}
	if e != nil {
		e.count.add(j.reason.isNone(), j.version, now)
	}
	if !j.reason.isNone() {
		if j.body != nil {
			s.refuse(kind, j, now)
		}
		return
	}
	if j.body != nil {
		e = s.accept(kind, j, now)
		e.version, e.source = j.version, server
	}
	if e == nil || e.gone {
		return
	}
	delete(s.mortal, e)
	e.expires = time.Time{}
	if j.ttl > 0 {
		e.expires = now.Add(j.ttl)
		s.mortal[e] = struct{}{}
	}
}

// accept takes what is new in a resource.
func (s *state) accept(kind Kind, j *judgement, now time.Time) *entry {
	e := s.entries[kind][j.name]
	if e == nil || !same(e.accepted.body, j.body) {
		return s.put(kind, j.name, content{j.body, j.references}, now)
	}
	s.mend(e)
	e.withdrawn = false
	return e
}

// keepOnly removes a root's resources that a response of the state of the world does not name.
func (s *state) keepOnly(kind Kind, resources []received, now time.Time) {
	present := make(map[string]struct{}, len(resources))
	for i := range resources {
		present[resources[i].name] = struct{}{}
	}
	for name, e := range s.entries[kind] {
		if _, ok := present[name]; !ok {
			s.remove(e, now)
		}
	}
}

// refusal is what the server is told: each resource that was refused, with the reason.
func refusal(judgements []judgement) error {
	var text strings.Builder
	left := 0
	for i := range judgements {
		j := &judgements[i]
		if j.reason.isNone() {
			continue
		}
		line := j.name + ": " + j.reason.String()
		if text.Len()+len(line) > maxFault && text.Len() > 0 {
			left++
			continue
		}
		if text.Len() > 0 {
			text.WriteString("; ")
		}
		text.WriteString(cut(line, maxFault))
	}
	if text.Len() == 0 {
		return nil
	}
	if left > 0 {
		fmt.Fprintf(&text, "; and %d more", left)
	}
	return errors.New(strings.ToValidUTF8(text.String(), "?"))
}
