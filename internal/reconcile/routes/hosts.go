// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// hostEntry is an entry of the host trie.
type hostEntry struct {
	key   string
	vhost uint32
}

func (e hostEntry) text() string { return e.key }

func (e hostEntry) leadsTo(other hostEntry) bool { return e.vhost == other.vhost }

// hostEntries are those of a table, by direction, each sorted.
type hostEntries [2][]hostEntry

// hostsOf returns the hosts of a table with these virtual hosts.
func hostsOf(t *tables.Table, vhosts []*vhost) (list hostEntries) {
	for _, h := range t.Hosts {
		list[h.Direction] = append(list[h.Direction], hostEntry{h.Key, vhosts[h.VHost-1].number.First})
	}
	return list
}

func (v *Version) hostKey(direction maps.HostDirection, text string) maps.HostKey {
	key := maps.HostKey{PrefixLen: scopeBits + 8*uint32(len(text)), Scope: v.index.First*2 + uint32(direction)}
	copy(key.Host[:], text)
	return key
}

var directions = []maps.HostDirection{maps.HostBackward, maps.HostForward}

// writeHosts writes the hosts of a version that nothing leads to yet.
func (r *Reconciler) writeHosts(v *Version) error {
	var w batch[maps.HostKey, uint32]
	for _, direction := range directions {
		for _, h := range v.hosts[direction] {
			w.add(v.hostKey(direction, h.key), h.vhost)
		}
	}
	return w.put(&r.stats.Hosts, r.cfg.Hosts)
}

// patchHosts changes the hosts of a version in place.
//
// What is found backward comes before what is found forward, and is looked for before: so the two tries are like one in
// which all backward keys are longer, but for programs that have looked backward before a key was added there. For these we wait
// before anything changes forward.
func (r *Reconciler) patchHosts(v *Version, want hostEntries) error {
	var changes [2]edits[hostEntry]
	var writers [2]trieWriter[hostEntry]
	for _, d := range directions {
		changes[d] = editsOf(v.hosts[d], want[d])
		writers[d] = trieWriter[hostEntry]{r: r, order: &trieOrder{}, write: func(e edit[hostEntry]) error {
			if e.to == nil {
				return writes.Remove(&r.stats.Hosts, r.cfg.Hosts, v.hostKey(d, e.key))
			}
			return writes.Put(&r.stats.Hosts, r.cfg.Hosts, v.hostKey(d, e.key), e.to.vhost)
		}}
	}
	backward, forward := &writers[maps.HostBackward], &writers[maps.HostForward]
	err := inOrder(
		func() error { return backward.run(changes[maps.HostBackward].added) },
		func() error {
			if len(backward.done) == 0 || changes[maps.HostForward].empty() {
				return nil
			}
			return backward.wait()
		},
		func() error { return forward.run(changes[maps.HostForward].added) },
		func() error { return backward.run(changes[maps.HostBackward].replaced) },
		func() error { return forward.run(changes[maps.HostForward].replaced) },
		func() error { return forward.run(changes[maps.HostForward].deleted) },
		func() error { return backward.run(changes[maps.HostBackward].deleted) },
	)
	for _, d := range directions {
		v.hosts[d], _, _ = writers[d].outcome(v.hosts[d], want[d])
	}
	return err
}
