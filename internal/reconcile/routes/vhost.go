// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// vhost is a virtual host in the maps: the entries of the path trie, or of the hash of paths, with its number. Versions of a table
// share those that they have in common.
type vhost struct {
	number indices.Span
	name   string
	// isHashed says that its entries are in the hash: then lengths are those that are tried. After an error there may be more than
	// the entries have.
	isHashed bool
	lengths  pathLengths
	// entries are those in the map, or before they are written and after an error those that may be there. Sorted.
	entries []pathEntry
	refs    int
	// isPending says that it is in the list of those to which there may be no reference.
	isPending bool
}

// pathEntry is an entry of the path trie, or of the hash of paths, and what it points to.
type pathEntry struct {
	key      string
	value    maps.Candidates
	routes   *interned[maps.Route]
	tuples   *interned[maps.Tuple]
	automata *interned[maps.Automaton]
}

func (e pathEntry) text() string { return e.key }

func (e pathEntry) leadsTo(other pathEntry) bool { return e.value == other.value }

func dropEntries(list []pathEntry) {
	for _, e := range list {
		e.routes.drop()
		e.tuples.drop()
		e.automata.drop()
	}
}

// scopeBits are the bits of a trie key before its text: a number of 32 bits.
const scopeBits = 32

func (v *vhost) key(text string) maps.PathKey {
	key := maps.PathKey{PrefixLen: scopeBits + 8*uint32(len(text)), Vhost: v.number.First}
	copy(key.Path[:], text)
	return key
}

func (v *vhost) hashKey(text string) maps.PathText {
	key := maps.PathText{Vhost: v.number.First, Len: uint32(len(text))}
	copy(key.Text[:], text)
	return key
}

// canHold reports whether the entries can take the place of those of a virtual host: they belong into the same map, and while both are there
// they do not have too many lengths.
func (r *Reconciler) canHold(v *vhost, entries []pathEntry) bool {
	if _, inHash := r.inHash(entries); inHash != v.isHashed {
		return false
	}
	_, fits := v.lengths.with(entries)
	return fits || !v.isHashed
}

// newVHost takes a number for entries, whose references it takes over. They are written by writeVHosts. It starts, and
// after an error stays, without a reference.
func (r *Reconciler) newVHost(name string, entries []pathEntry) (*vhost, error) {
	number, err := r.indices.VHosts.Take(1)
	if err != nil {
		dropEntries(entries)
		return nil, err
	}
	v := &vhost{number: number, name: name, entries: entries}
	v.lengths, v.isHashed = r.inHash(entries)
	r.pending.addVHost(v)
	return v, nil
}

func retainVHosts(list []*vhost) {
	for _, v := range list {
		v.refs++
	}
}

func (r *Reconciler) releaseVHosts(list []*vhost) {
	for _, v := range list {
		if v.refs--; v.refs == 0 {
			r.pending.addVHost(v)
		}
	}
}

// withoutRepetitions returns the virtual hosts in their order, each once.
func withoutRepetitions(list []*vhost) []*vhost {
	seen := map[*vhost]bool{}
	var once []*vhost
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			once = append(once, v)
		}
	}
	return once
}

// writeVHosts writes virtual hosts that nothing leads to yet.
func (r *Reconciler) writeVHosts(list []*vhost) error {
	var words batch[uint32, uint64]
	var trie batch[maps.PathKey, maps.Candidates]
	var hash batch[maps.PathText, maps.Candidates]
	for _, v := range list {
		// Whoever had the number before may have left a word.
		words.add(v.number.First, uint64(v.lengths))
		for i := range v.entries {
			if e := &v.entries[i]; v.isHashed {
				hash.add(v.hashKey(e.key), e.value)
			} else {
				trie.add(v.key(e.key), e.value)
			}
		}
	}
	return inOrder(
		func() error { return words.put(&r.stats.VHosts, r.cfg.VHosts) },
		func() error { return hash.put(&r.stats.Paths, r.cfg.PathTexts) },
		func() error { return trie.put(&r.stats.Paths, r.cfg.Paths) },
	)
}

// patchVHost changes the entries of a virtual host that can hold them in place, and takes over the references of the new ones.
func (r *Reconciler) patchVHost(v *vhost, want []pathEntry) error {
	changes := editsOf(v.entries, want)
	w := trieWriter[pathEntry]{r: r, order: r.orderOf(v), write: func(e edit[pathEntry]) error {
		if e.to == nil {
			return r.removePath(v, e.key)
		}
		return r.putPath(v, *e.to)
	}}
	err := inOrder(
		func() error { return r.addLengths(v, want) },
		func() error { return w.run(changes.added) },
		func() error { return w.run(changes.replaced) },
		func() error { return w.run(changes.deleted) },
		func() error { return r.dropLengths(v, want) },
	)
	now, old, unused := w.outcome(v.entries, want)
	v.entries = now
	r.pending.entries = append(r.pending.entries, old...)
	dropEntries(unused)
	return err
}

func (r *Reconciler) orderOf(v *vhost) order {
	if v.isHashed {
		return &hashOrder{vhost: v, pending: &r.pending}
	}
	return &trieOrder{}
}

func (r *Reconciler) putPath(v *vhost, e pathEntry) error {
	if v.isHashed {
		return writes.Put(&r.stats.Paths, r.cfg.PathTexts, v.hashKey(e.key), e.value)
	}
	return writes.Put(&r.stats.Paths, r.cfg.Paths, v.key(e.key), e.value)
}

func (r *Reconciler) removePath(v *vhost, key string) error {
	if v.isHashed {
		return writes.Remove(&r.stats.Paths, r.cfg.PathTexts, v.hashKey(key))
	}
	return writes.Remove(&r.stats.Paths, r.cfg.Paths, v.key(key))
}

// inOrder does one thing after another, up to the first error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// eraseVHost deletes the entries of a virtual host without references.
func (r *Reconciler) eraseVHost(v *vhost) error {
	for n := len(v.entries); n > 0; n-- {
		if err := r.removePath(v, v.entries[n-1].key); err != nil {
			return err
		}
		dropEntries(v.entries[n-1:])
		v.entries = v.entries[:n-1]
	}
	r.indices.VHosts.Free(v.number)
	return nil
}
