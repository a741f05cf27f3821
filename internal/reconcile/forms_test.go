// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"testing"

	shared "github.com/xlb-project/xlb/internal/maps"
)

// forms counts what became of virtual hosts, in the words of formChanges.
type forms map[string]int

var formChanges = []string{"stays in the hash", "stays in the trie", "hash to trie", "trie to hash", "new lengths"}

// form is a virtual host as the maps have it.
type form struct {
	number uint32
	// lengths of its keys in the hash; 0: it is in the trie.
	lengths uint64
	entries map[string]shared.Candidates
}

// forms are the virtual hosts of all listeners as they are, by listener and host.
func (r *Reconciler) forms() map[string]form {
	found := map[string]form{}
	for _, l := range r.listenersByNumber() {
		table := kernel{cfg: r.cfg}.table(l.number)
		if table == 0 {
			continue
		}
		if vhost := at(r.cfg.RouteTables, table).DefaultVhost; vhost != 0 {
			found[l.name.Name+" default"] = r.form(vhost)
		}
		r.cfg.Hosts.Each(func(key shared.HostKey, vhost uint32) bool {
			if key.Scope/2 == table {
				found[fmt.Sprintf("%s %d %s", l.name, key.Scope%2, key.Host[:(key.PrefixLen-32)/8])] = r.form(vhost)
			}
			return true
		})
	}
	return found
}

func (r *Reconciler) form(vhost uint32) form {
	f := form{number: vhost, lengths: at(r.cfg.VHosts, vhost), entries: map[string]shared.Candidates{}}
	r.cfg.PathTexts.Each(func(key shared.PathText, c shared.Candidates) bool {
		if key.Vhost == vhost && f.lengths != 0 {
			f.entries[string(key.Text[:key.Len])] = c
		}
		return true
	})
	r.cfg.Paths.Each(func(key shared.PathKey, c shared.Candidates) bool {
		if key.Vhost == vhost && f.lengths == 0 {
			f.entries[string(key.Path[:(key.PrefixLen-32)/8])] = c
		}
		return true
	})
	return f
}

// note counts those that have changed.
func (f forms) note(before, after map[string]form) {
	for name := range after {
		old, is := before[name]
		v := after[name]
		switch {
		case !is || maps.Equal(old.entries, v.entries):
		case old.lengths != 0 && v.lengths == 0:
			f["hash to trie"]++
		case old.lengths == 0 && v.lengths != 0:
			f["trie to hash"]++
		case v.lengths == 0:
			f["stays in the trie"]++
		default:
			f["stays in the hash"]++
		}
		if is && v.lengths != 0 && old.number == v.number && old.lengths != v.lengths {
			f["new lengths"]++
		}
	}
}

// check demands that each has been seen, of configurations in which they occur.
func (f forms) check(t *testing.T, k *kind) {
	for _, change := range formChanges {
		if k.changesForm && f[change] == 0 {
			t.Errorf("no virtual host of which a change was: %s", change)
		}
	}
}
