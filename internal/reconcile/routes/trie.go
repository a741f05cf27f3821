// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"slices"
	"strings"
)

// Changing a trie in place.
//
// A program finds the longest key that begins its text, and what it reads there it reads in that one entry; all that an
// entry points to stays as it is. So a text has an old entry and a new one, and its look-ups are to find the one or the other,
// never a third, while the entries change one after another:
//
//  1. Keys that are new are added, the longest first. A text that will find one of them finds its old entry until then,
//     because shorter new ones come later.
//  2. Keys that stay get their new values. The longest key of a text that has one is now known: each such write moves the
//     texts that find it from their old entry to their new one.
//  3. Keys that go are deleted, the shortest first. A text whose old entry is deleted finds the next longest key: shorter
//     old ones have gone, so that is its new entry.
//
// A look-up takes time: it passes the shorter keys of a text first, and may miss what is written there behind it. In 1 and 2
// that is its old entry still. In 3 it would find a third entry if it passed before a shorter key was written, and arrived after its
// long key was deleted. So before a key is deleted we wait for the programs that may have passed a shorter one before it was
// written.

// trieEntry is an entry of a trie.
type trieEntry[E any] interface {
	text() string
	// leadsTo reports whether both hold the same.
	leadsTo(E) bool
}

// edit is a change of one key: from nil it is added, to nil deleted.
type edit[E any] struct {
	key      string
	from, to *E
}

// edits are what makes a trie with the entries `have` one with `want`, both sorted.
type edits[E any] struct {
	added, replaced, deleted []edit[E]
}

func (e *edits[E]) empty() bool { return len(e.added)+len(e.replaced)+len(e.deleted) == 0 }

func editsOf[E trieEntry[E]](have, want []E) (e edits[E]) {
	merge(have, want, func(b, a E) int { return strings.Compare(b.text(), a.text()) },
		func(gone *E) { e.deleted = append(e.deleted, edit[E]{key: (*gone).text(), from: gone}) },
		func(added *E) { e.added = append(e.added, edit[E]{key: (*added).text(), to: added}) },
		func(from, to *E) {
			if !(*from).leadsTo(*to) {
				e.replaced = append(e.replaced, edit[E]{key: (*from).text(), from: from, to: to})
			}
		})
	byLength := func(a, b edit[E]) int { return cmp.Compare(len(a.key), len(b.key)) }
	slices.SortStableFunc(e.added, func(a, b edit[E]) int { return byLength(b, a) })
	slices.SortStableFunc(e.deleted, byLength)
	return e
}

// order says when the changes of a map in place have to wait for running programs.
type order interface {
	// mustWait reports whether they must be waited for before a change.
	mustWait(key string, to change) bool
	// made notes a change, and waited that programs have been waited for.
	made(key string, to change)
	waited()
}

// change is what becomes of a key.
type change int

const (
	added change = iota
	replaced
	deleted
)

func (e *edit[E]) kind() change {
	switch {
	case e.from == nil:
		return added
	case e.to == nil:
		return deleted
	}
	return replaced
}

// keySet are texts.
type keySet map[string]struct{}

func (s *keySet) add(key string) {
	if *s == nil {
		*s = keySet{}
	}
	(*s)[key] = struct{}{}
}

func (s keySet) has(key string) bool {
	_, is := s[key]
	return is
}

// trieOrder is that of a trie: touched are the keys that were written since programs were waited for.
type trieOrder struct{ touched keySet }

func (o *trieOrder) mustWait(key string, to change) bool {
	if to != deleted {
		return false
	}
	for n := range len(key) {
		if o.touched.has(key[:n]) {
			return true
		}
	}
	return false
}

func (o *trieOrder) made(key string, _ change) { o.touched.add(key) }

func (o *trieOrder) waited() { clear(o.touched) }

// trieWriter changes one trie, or the entries of one virtual host in the hash.
type trieWriter[E trieEntry[E]] struct {
	r     *Reconciler
	order order
	write func(edit[E]) error
	// done are the changes that were made.
	done []edit[E]
}

// run makes some changes in order.
func (w *trieWriter[E]) run(list []edit[E]) error {
	for _, e := range list {
		if w.order.mustWait(e.key, e.kind()) {
			if err := w.wait(); err != nil {
				return err
			}
		}
		if err := w.write(e); err != nil {
			return err
		}
		w.r.pending.hasReaders = true
		w.done = append(w.done, e)
		w.order.made(e.key, e.kind())
	}
	return nil
}

// wait returns when the programs that are running have ended.
func (w *trieWriter[E]) wait() error {
	if err := w.r.SynchronizeRCU(); err != nil {
		return err
	}
	w.order.waited()
	return nil
}

// outcome returns the entries that a trie has after the changes that were made, and of both lists those that it has not: the old ones
// programs may still read, the new ones none has seen.
func (w *trieWriter[E]) outcome(have, want []E) (now, old, unused []E) {
	done := make(map[string]edit[E], len(w.done))
	for _, e := range w.done {
		done[e.key] = e
	}
	now = make([]E, 0, max(len(have), len(want)))
	for _, e := range have {
		if _, is := done[e.text()]; is {
			old = append(old, e)
		} else {
			now = append(now, e)
		}
	}
	unused = make([]E, 0, len(want))
	for _, e := range want {
		if _, is := done[e.text()]; is {
			now = append(now, e)
		} else {
			unused = append(unused, e)
		}
	}
	slices.SortFunc(now, func(a, b E) int { return strings.Compare(a.text(), b.text()) })
	return now, old, unused
}
