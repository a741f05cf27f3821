// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
)

// Draft is a compiled table whose lists are in the maps, compared with the version in force.
type Draft struct {
	r     *Reconciler
	table *tables.Table
	owner Owner
	// live is the version in force; nil: there is none.
	live   *Version
	vhosts []draftVHost
	// automata of the table's headers.
	automata []*interned[maps.Automaton]
	// values and prefixes of headers with their classes in the maps, and what of the values differs.
	values, prefixes []valueEntry
	edits            valueEdits
	// changes make live indexes those of the table; isShared says that some would be for other lists, too.
	changes  []*indexChange
	isShared bool
	// written are the virtual hosts that are new.
	written []*vhost
	// Next is the version to come, or the live one, if that is to be changed in place. Prepare finds it.
	Next *Version
}

// draftVHost is a virtual host of a draft.
type draftVHost struct {
	name  string
	paths []tables.Path
	// entries, each with a reference, until something else takes the references over.
	entries []pathEntry
	// live is the one with the same name; nil: there is none, or none that could hold the entries. Otherwise changed says that its
	// entries differ.
	live    *vhost
	changed bool
}

// NewDraft finds, or takes numbers for, the lists of a table; they are written by flush. The caller closes the draft. It takes the place of the live version, which
// may become it: so all listeners that point to that one are to have this table, and they are to point to no other one with its Owner. Nil stands for no live version.
func (r *Reconciler) NewDraft(live *Version, t *tables.Table) (*Draft, error) {
	owner := r.ownerFor(live)
	d, err := r.draftWith(owner, live, t, live != nil)
	if err != nil || len(d.changes) == 0 || d.isChangeable() {
		return d, err
	}
	d.Close()
	return r.draftWith(owner, live, t, false)
}

// ownerFor is that of the version which is followed, or a new one.
func (r *Reconciler) ownerFor(live *Version) Owner {
	if live != nil {
		return live.owner
	}
	r.lastOwner++
	return r.lastOwner
}

// draftWith may keep the numbers of indexes that are to be changed.
func (r *Reconciler) draftWith(owner Owner, live *Version, t *tables.Table, keepsIndexes bool) (*Draft, error) {
	d := &Draft{r: r, table: t, owner: owner, live: live}
	s := r.newSource(owner, t)
	defer s.close()
	d.numberValues(s)
	d.match()
	if keepsIndexes {
		d.pair(s)
	}
	err := d.resolve(s)
	d.changes = s.changes
	if err != nil {
		d.Close()
		return nil, err
	}
	d.isShared = slices.ContainsFunc(d.changes, func(c *indexChange) bool { return s.users[c.of] > 1 })
	d.compare()
	return d, nil
}

// match splits the table by virtual hosts, and finds the live ones by name. Several of one name are taken in their order.
func (d *Draft) match() {
	byName := map[string][]*vhost{}
	if d.live != nil {
		for _, v := range withoutRepetitions(d.live.vhosts) {
			byName[v.name] = append(byName[v.name], v)
		}
	}
	paths := d.table.Paths
	for i, name := range d.table.VHosts {
		n := slices.IndexFunc(paths, func(p tables.Path) bool { return p.VHost != uint32(i)+1 })
		if n < 0 {
			n = len(paths)
		}
		v := draftVHost{name: name, paths: paths[:n]}
		if same := byName[name]; len(same) > 0 {
			v.live, byName[name] = same[0], same[1:]
		}
		d.vhosts = append(d.vhosts, v)
		paths = paths[n:]
	}
}

func (d *Draft) pair(s *source) {
	s.counterparts = map[uint32]*index{}
	partners := map[*index]uint32{}
	for i := range d.vhosts {
		if v := &d.vhosts[i]; v.live != nil {
			s.pair(v.live.entries, v.paths, partners)
		}
	}
}

func (d *Draft) resolve(s *source) (err error) {
	for i := range d.vhosts {
		if d.vhosts[i].entries, err = s.entries(d.vhosts[i].paths); err != nil {
			return err
		}
	}
	for _, f := range d.table.Fields {
		a, err := s.automataFrom(f.Automaton, f.Automata)
		if err != nil {
			return err
		}
		d.automata = append(d.automata, a)
	}
	return nil
}

// compare notes what differs from the live version.
func (d *Draft) compare() {
	if d.live == nil {
		return
	}
	d.edits = valueEditsOf(d.live.values, d.values)
	for i := range d.vhosts {
		d.r.compare(&d.vhosts[i])
	}
}

// compare notes whether the entries of a virtual host differ from those of the live one, if that could hold them.
func (r *Reconciler) compare(v *draftVHost) {
	if v.live == nil {
		return
	}
	v.changed = !slices.EqualFunc(v.live.entries, v.entries, func(a, b pathEntry) bool { return a.key == b.key && a.value == b.value })
	if v.changed && !r.canHold(v.live, v.entries) {
		v.live, v.changed = nil, false
	}
}

// Close drops the references that nothing has taken over.
func (d *Draft) Close() {
	for i := range d.vhosts {
		dropEntries(d.vhosts[i].take())
	}
	for _, a := range d.takeAutomata() {
		a.drop()
	}
	for _, c := range d.changes {
		c.drop()
	}
	d.changes = nil
}

func (v *draftVHost) take() []pathEntry {
	entries := v.entries
	v.entries = nil
	return entries
}

func (d *Draft) takeAutomata() []*interned[maps.Automaton] {
	automata := d.automata
	d.automata = nil
	return automata
}

// asksAlike reports whether the live version finds out the same about each request, but for host, path and values: then bits, classes and
// slots mean the same in both.
func (d *Draft) asksAlike() bool {
	if d.live == nil || !d.live.table.SameLimits(d.table) || d.live.table.Flags != d.table.Flags || d.live.table.Missing != d.table.Missing {
		return false
	}
	live := d.live.table
	isSame := func(a, b tables.Field) bool {
		a.Automaton, b.Automaton = 0, 0
		return a == b
	}
	return slices.EqualFunc(live.Fields, d.table.Fields, isSame) && slices.Equal(d.live.automata, d.automata) &&
		slices.Equal(d.live.prefixes, d.prefixes)
}

// hasDefault reports whether the virtual host of "*" is that of the live version, whose record stays.
func (d *Draft) hasDefault() bool {
	if d.table.Default == 0 || d.live.fallback == nil {
		return d.table.Default == 0 && d.live.fallback == nil
	}
	return d.vhosts[d.table.Default-1].live == d.live.fallback
}

// Prepare writes what no program sees before the draft is put in force.
func (d *Draft) Prepare() error {
	if err := d.r.interners.flush(); err != nil {
		return err
	}
	if d.isChangeable() {
		return d.prepareChange()
	}
	v, err := d.r.newVersion(d)
	d.Next = v
	return err
}

// isChangeable reports whether the live version can be made the draft so that each request is decided by the one or the
// other. A decision is that of one entry of the host tries and of one of the path trie, or of the hash of paths. If entries of both change, the changed
// virtual hosts get new numbers, so that the host decides alone; that of "*" has its number in the table's record.
func (d *Draft) isChangeable() bool {
	if d.live == nil || !d.asksAlike() || !d.hasDefault() {
		return false
	}
	if !d.edits.empty() || len(d.changes) > 0 {
		return d.switchesByIndex()
	}
	if d.table.Default == 0 || !d.vhosts[d.table.Default-1].changed {
		return true
	}
	return !d.moves()
}

// switchesByIndex reports whether one look-up of values or indexes decides over the switch of each request, and all else is as it was.
func (d *Draft) switchesByIndex() bool {
	isOther := func(v draftVHost) bool { return v.live == nil || v.changed }
	switch {
	case d.isShared || slices.ContainsFunc(d.vhosts, isOther) || d.moves():
		return false
	case d.edits.empty():
		return len(d.changes) == 1
	}
	return d.edits.switchOneLookUp(d.changes)
}

// moves reports whether some host leads to another virtual host than before.
func (d *Draft) moves() bool {
	var now hostEntries
	for _, h := range d.table.Hosts {
		e := hostEntry{key: h.Key}
		if v := d.vhosts[h.VHost-1].live; v != nil {
			e.vhost = v.number.First
		}
		now[h.Direction] = append(now[h.Direction], e)
	}
	return !slices.Equal(now[maps.HostBackward], d.live.hosts[maps.HostBackward]) ||
		!slices.Equal(now[maps.HostForward], d.live.hosts[maps.HostForward])
}

// prepareChange writes the virtual hosts that the live version does not have.
func (d *Draft) prepareChange() error {
	moves := d.moves()
	for i := range d.vhosts {
		v := &d.vhosts[i]
		if v.live == nil || v.changed && moves {
			host, err := d.r.newVHost(v.name, v.take())
			if err != nil {
				return err
			}
			d.written = append(d.written, host)
			v.live, v.changed = host, false
		}
	}
	d.Next = d.live
	return d.r.writeVHosts(d.written)
}

// Change makes the live version the draft, in place. After an error each request is still decided by the one or the other.
func (d *Draft) Change() error {
	v := d.live
	v.torn = true
	vhosts := make([]*vhost, len(d.vhosts))
	for i := range d.vhosts {
		vhosts[i] = d.vhosts[i].live
		if d.vhosts[i].changed {
			if err := d.r.patchVHost(vhosts[i], d.vhosts[i].take()); err != nil {
				return err
			}
		}
	}
	if err := d.changeIndexes(); err != nil {
		return err
	}
	// Until all hosts lead to the new virtual hosts the version holds the old ones, too.
	before := v.vhosts
	v.vhosts = append(slices.Clone(before), vhosts...)
	retainVHosts(vhosts)
	if err := d.r.patchHosts(v, hostsOf(d.table, vhosts)); err != nil {
		return err
	}
	d.r.releaseVHosts(before)
	v.table, v.sum, v.vhosts, v.torn = d.table, SumOf(d.table), vhosts, false
	return nil
}
