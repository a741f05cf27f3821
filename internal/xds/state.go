// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/anypb"
)

// content is what a resource says.
type content struct {
	body       *anypb.Any // nil: nothing
	references []string   // of a root: names of its kind's child
}

// entry is one named resource: of a root's kind, each that the server has sent; of the other kinds, each that is referred to.
type entry struct {
	kind Kind
	name string

	accepted content
	version  string // of accepted, the newest
	source   int    // the server that gave it
	updated  time.Time
	// served is what snapshots show of a root: accepted, once all it refers to is settled.
	served  content
	refused *refused
	// count is of what the server has said of it.
	count Count

	// users counts references: of the roots' accepted and served content; shown those of served content alone.
	users, shown int
	// absent: the server does not have it, or has not sent it in time.
	absent bool
	// withdrawn: the server has removed it, yet it serves on since it is referred to.
	withdrawn bool
	// waiters are roots that cannot serve what was accepted before this is settled.
	waiters map[*entry]struct{}
	// expires is when its time to live ends; zero: never.
	expires time.Time
	// unused: nothing refers to it, and it is kept for a while; never so of a root's kind.
	unused bool
	gone   bool
}

// refused is the newest content that was refused; a later one that is accepted ends it.
type refused struct {
	// body is nil where it is longer than maxRefusedBody, or brief; digest is then how it is known again.
	body    *anypb.Any
	digest  [sha256.Size]byte
	version string
	reason  reason
	at      time.Time
	// brief: there was no room for more.
	brief bool
}

// reason is why a resource was refused, or the beginning of that. The zero value: it was not refused.
type reason struct {
	text  string
	isCut bool
	// fault is what Check has found; nil where the reason is another one, and where little is kept, since it quotes what was sent.
	fault error
}

// reasonOf is that of an error; nil has no reason.
func reasonOf(err error) reason {
	if err == nil {
		return reason{}
	}
	return reason{text: cmp.Or(err.Error(), "refused"), fault: err}
}

func (r reason) isNone() bool { return r.text == "" }

// within is what fits into so many bytes, a copy if that is not all. What was cut stays as it is where it fits.
func (r reason) within(most int) reason {
	if len(r.text) <= most {
		return r
	}
	return reason{text: strings.Clone(cut(r.text, most)), isCut: true}
}

func (r reason) String() string {
	if r.isCut {
		return r.text + " ..."
	}
	return r.text
}

// maxRefusedBody bounds what is kept of a resource to show why it was refused, in bytes. A response may have 64 MiB, and what was refused stays until the
// server says better: it may never do so, and name another one next.
const maxRefusedBody = 64 << 10

// maxRefused is the number of refused resources, of all kinds, of which body and reason are kept, up to 64 KiB of each. Further ones that are in force, or
// referred to, are brief: they have maxBriefReason bytes of the reason, until there is room and they come again. The rest is counted, and judged each time
// it comes: nothing is kept by which it would be known.
const (
	maxRefused     = 256
	maxBriefReason = 128
)

// newRefused notes a body that was refused.
func newRefused(j *judgement, brief bool, at time.Time) refused {
	r := refused{body: j.body, version: j.version, reason: j.reason.within(maxFault), at: at, brief: brief}
	if brief {
		r.reason = r.reason.within(maxBriefReason)
		r.reason.fault = nil
	}
	if r.isDigest(j.body) {
		r.body, r.digest = nil, digestOf(j.body)
	}
	return r
}

// isDigest reports whether such a body is not kept.
func (r *refused) isDigest(body *anypb.Any) bool {
	return r.brief || len(body.GetValue()) > maxRefusedBody
}

// isOf reports whether it is that body that was refused.
func (r *refused) isOf(body *anypb.Any) bool {
	if r.body == nil {
		return r.isDigest(body) && r.digest == digestOf(body)
	}
	return same(r.body, body)
}

// digestOf is the same for bodies that are the same.
func digestOf(body *anypb.Any) [sha256.Size]byte {
	of, value := sha256.Sum256([]byte(body.GetTypeUrl())), sha256.Sum256(body.GetValue())
	return sha256.Sum256(append(of[:], value[:]...))
}

// cut is the beginning of a text, in so many bytes at most. It ends at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for at := most; at > max(0, most-utf8.UTFMax); at-- {
		if utf8.RuneStart(text[at]) {
			return text[:at]
		}
	}
	return text[:most] // it is not UTF-8
}

// settled says whether what refers to e need not wait for it.
func (e *entry) settled() bool { return e.accepted.body != nil || e.absent }

// fetch is a resource that counts as absent when its deadline passes.
type fetch struct {
	deadline time.Time
	entry    *entry
}

// state is what is known, whatever the protocol's form and the server. It is not safe for concurrent use.
type state struct {
	entries [kinds]map[string]*entry
	// version is of the last response of the kind of which all was accepted, source the server that sent it.
	version [kinds]string
	source  [kinds]int
	// answered: a server has said something of the kind; of a root's, what there is.
	answered [kinds]bool

	// refusals counts the resources that were refused and are kept whole, notKept those that were, and of which nothing is known.
	refusals int
	notKept  [kinds]uint64

	patience time.Duration // how long a resource may be missing; 0 is for ever
	fetches  []fetch       // in order of their deadlines
	mortal   map[*entry]struct{}

	// orphans have lost a user since the last sweep; lingering are those that are kept for a while, in order of their deadlines.
	orphans   []*entry
	lingering []fetch
	// added and dropped are names whose subscription the server has not been told of; names is the sorted list, nil where it has to be made.
	added, dropped [kinds]map[string]struct{}
	names          [kinds][]string
	// ready is Config.Ready, holding are the clusters that wait because of it.
	ready   func(name string, body *anypb.Any) bool
	holding map[*entry]struct{}
	// dirty are names in which a snapshot may differ from the one before.
	dirty [kinds]map[string]struct{}
}

func newState(patience time.Duration) *state {
	s := &state{patience: patience, mortal: map[*entry]struct{}{}, holding: map[*entry]struct{}{}}
	for _, k := range every {
		s.entries[k], s.dirty[k] = map[string]*entry{}, map[string]struct{}{}
		s.told(k)
	}
	return s
}

// put takes new content of a resource. One of a root's kind becomes known by it; others are known already, since something refers to them.
func (s *state) put(kind Kind, name string, c content, now time.Time) *entry {
	e := s.entries[kind][name]
	if e == nil {
		e = &entry{kind: kind, name: name}
		s.entries[kind][name] = e
	}
	old := e.accepted
	if same(old.body, c.body) {
		c.body = old.body
	}
	s.mend(e)
	e.accepted, e.updated, e.absent, e.withdrawn = c, now, false, false
	if !kind.isRoot() {
		e.served = c
		s.dirty[kind][name] = struct{}{}
		s.release(e, now)
		return e
	}
	s.hold(kind.child(), c.references, now)
	s.unwait(e, old.references)
	s.drop(kind.child(), old.references)
	s.warm(e, now)
	return e
}

// refuse keeps why a resource was refused; what was accepted before stays. Once so many are kept, the number alone of those that nothing else is known of.
func (s *state) refuse(kind Kind, j *judgement, now time.Time) {
	e := s.entries[kind][j.name]
	s.mend(e)
	brief := j.brief || s.refusals >= maxRefused
	if e == nil && brief {
		s.notKept[kind]++
		return
	}
	if e == nil {
		e = &entry{kind: kind, name: j.name}
		s.entries[kind][j.name] = e
	}
	r := newRefused(j, brief, now)
	if e.refused = &r; !brief {
		s.refusals++
	}
}

// mend forgets that a resource, which may be nil, was refused.
func (s *state) mend(e *entry) {
	if e == nil || e.refused == nil {
		return
	}
	if !e.refused.brief {
		s.refusals--
	}
	e.refused = nil
}

// warm serves what was accepted if all it refers to is settled; else e waits.
func (s *state) warm(e *entry, now time.Time) {
	if e.gone || e.accepted.body == nil || e.accepted.body == e.served.body && slices.Equal(e.accepted.references, e.served.references) {
		return
	}
	child := e.kind.child()
	waits := !s.isReady(e)
	for _, name := range e.accepted.references {
		if other := s.entries[child][name]; !other.settled() {
			waits = true
			if other.waiters == nil {
				other.waiters = map[*entry]struct{}{}
			}
			other.waiters[e] = struct{}{}
		}
	}
	if waits {
		return
	}
	s.hold(child, e.accepted.references, now)
	s.serve(e, e.accepted)
}

// isReady says whether a root's resource has all that is no reference; else it is tried again later.
func (s *state) isReady(e *entry) bool {
	delete(s.holding, e)
	if s.ready == nil || e.kind != Clusters || s.ready(e.name, e.accepted.body) {
		return true
	}
	s.holding[e] = struct{}{}
	return false
}

// again tries those that have waited for what is no reference.
func (s *state) again(now time.Time) {
	for _, e := range slices.Collect(maps.Keys(s.holding)) {
		s.warm(e, now)
	}
}

// serve changes what a root serves. References of the new content are held already.
func (s *state) serve(e *entry, c content) {
	child := e.kind.child()
	s.show(child, e.served.references, -1)
	s.show(child, c.references, +1)
	s.drop(child, e.served.references)
	e.served = c
	s.dirty[e.kind][e.name] = struct{}{}
}

// show counts references of served content.
func (s *state) show(kind Kind, names []string, by int) {
	for _, name := range names {
		s.entries[kind][name].shown += by
		s.dirty[kind][name] = struct{}{}
	}
}

// unwait ends e's waiting for names.
func (s *state) unwait(e *entry, names []string) {
	for _, name := range names {
		delete(s.entries[e.kind.child()][name].waiters, e)
	}
}

// release lets those go on that have waited for e.
func (s *state) release(e *entry, now time.Time) {
	waiters := e.waiters
	e.waiters = nil
	for w := range waiters {
		s.warm(w, now)
	}
}

// remove forgets a root's resource; of another it is told that the server no longer has it. An assignment or a route table that is
// referred to serves on, as in Envoy: they end with what refers to them.
func (s *state) remove(e *entry, now time.Time) {
	if e.unused {
		s.forget(e)
		return
	}
	if !e.kind.isRoot() {
		e.withdrawn = e.accepted.body != nil
		e.absent = !e.withdrawn
		e.updated = now
		s.mend(e)
		e.expires = time.Time{}
		delete(s.mortal, e)
		s.release(e, now)
		return
	}
	s.unwait(e, e.accepted.references)
	s.drop(e.kind.child(), e.accepted.references)
	s.serve(e, content{})
	s.forget(e)
}

// expire ends a resource whose time to live has passed, also one that is referred to: that is then absent. What was refused
// since is forgotten with it.
func (s *state) expire(e *entry, now time.Time) {
	if e.kind.isRoot() || e.unused {
		s.remove(e, now)
		return
	}
	s.mend(e)
	e.accepted, e.served, e.version, e.expires = content{}, content{}, "", time.Time{}
	delete(s.mortal, e)
	e.absent, e.updated = true, now
	s.dirty[e.kind][e.name] = struct{}{}
	s.release(e, now)
}

func (s *state) forget(e *entry) {
	e.gone = true
	s.mend(e)
	delete(s.holding, e)
	if s.ready != nil && e.kind == Clusters {
		s.ready(e.name, nil)
	}
	delete(s.entries[e.kind], e.name)
	delete(s.mortal, e)
}

// same says whether two bodies hold the same bytes of the same type.
func same(a, b *anypb.Any) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.TypeUrl == b.TypeUrl && bytes.Equal(a.Value, b.Value)
}
