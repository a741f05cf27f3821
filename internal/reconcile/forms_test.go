// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"
)

// forms counts what became of virtual hosts, in the words of formChanges.
type forms map[string]int

var formChanges = []string{"stays in the hash", "stays in the trie", "hash to trie", "trie to hash", "new lengths"}

// forms are the virtual hosts of all listeners as they are, by listener and name.
func (r *Reconciler) forms() map[string]vhost {
	found := map[string]vhost{}
	for _, l := range r.listenersByNumber() {
		if l.live == nil {
			continue
		}
		for _, v := range l.live.vhosts {
			found[l.name+" "+v.name] = *v
		}
	}
	return found
}

// note counts those that have changed.
func (f forms) note(before, after map[string]vhost) {
	for name := range after {
		old, is := before[name]
		v := after[name]
		isSame := slices.EqualFunc(old.entries, v.entries, func(a, b pathEntry) bool { return a.key == b.key && a.value == b.value })
		switch {
		case !is || isSame:
		case old.isHashed && !v.isHashed:
			f["hash to trie"]++
		case !old.isHashed && v.isHashed:
			f["trie to hash"]++
		case !v.isHashed:
			f["stays in the trie"]++
		default:
			f["stays in the hash"]++
		}
		if is && v.isHashed && old.number == v.number && old.lengths != v.lengths {
			f["new lengths"]++
		}
	}
}

// check demands that each has been seen, of configurations in which they occur.
func (f forms) check(t *testing.T, k *kind) {
	for _, change := range formChanges {
		if k.turns && f[change] == 0 {
			t.Errorf("no virtual host of which a change was: %s", change)
		}
	}
}
