// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"hash/maphash"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// Version is one version of a route table in the maps. Listeners point to it, or it is unlinked.
type Version struct {
	table *tables.Table
	// sum is the table's, owner that of its indexes and virtual hosts: those of the version that it follows.
	sum   uint64
	owner Owner
	// listeners is how many point to it.
	listeners int
	// torn says that a change in place did not come to its end: then the table is not what the maps hold.
	torn bool

	index, fieldNumbers indices.Span
	// vhosts are the table's, in its order; when it is torn those of both tables. The version has a reference to each.
	vhosts []*vhost
	// fallback is the virtual host of "*", if there is one.
	fallback *vhost
	// hosts may be in the maps.
	hosts hostEntries
	// automata of the headers.
	automata []*interned[maps.Automaton]
	// fields is how many of the table's fields may be in the maps: the first ones.
	fields int
	// values and prefixes may be in the maps; sorted.
	values, prefixes []valueEntry
}

// newVersion takes the numbers for a version and writes all of it that the maps do not hold yet, children first. It
// starts, and after an error stays, unlinked.
func (r *Reconciler) newVersion(d *Draft) (*Version, error) {
	v := &Version{table: d.table, sum: SumOf(d.table), owner: d.owner, automata: d.takeAutomata()}
	r.pending.versions = append(r.pending.versions, v)
	var err error
	if v.index, err = r.indices.Tables.Take(1); err != nil {
		return nil, err
	}
	if v.fieldNumbers, err = r.indices.Fields.Take(uint32(len(v.table.Fields))); err != nil {
		return nil, err
	}
	v.values, v.prefixes = d.values, d.prefixes
	if err := d.takeVHosts(v); err != nil {
		return nil, err
	}
	v.hosts = hostsOf(v.table, v.vhosts)
	return v, inOrder(
		func() error { return r.writeVHosts(d.written) },
		func() error { return r.writeValues(v) },
		func() error { return r.writePrefixes(v) },
		func() error { return r.writeFields(v) },
		func() error { return r.writeHosts(v) },
		func() error { return r.writeTable(v) },
	)
}

// Number is what a listener has that points to the version.
func (v *Version) Number() uint32 { return v.index.First }

// Holds reports whether the version is the compiled table. Comparing clusters by their keys
// is enough: one that a live table names keeps its index.
func (v *Version) Holds(t *tables.Table) bool {
	return v != nil && !v.torn && v.table.Equal(t)
}

// Sum is that of the table.
func (v *Version) Sum() uint64 { return v.sum }

// Owner is the owner of the version's indexes and virtual hosts.
func (v *Version) Owner() Owner { return v.owner }

// Owner is a succession of versions: each shares virtual hosts and indexes with the one that it follows. While listeners point to two of them neither may be
// changed in place.
type Owner uint64

var sumSeed = maphash.MakeSeed()

// SumOf is the same for tables that are the same, and seldom for others.
func SumOf(t *tables.Table) uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	for i := range t.Paths {
		_, _ = h.WriteString(t.Paths[i].Key)
	}
	sum := h.Sum64()
	for i := range t.Routes {
		sum = sum*31 + maphash.Comparable(sumSeed, t.Routes[i])
	}
	for i := range t.Splits {
		sum = sum*31 + maphash.Comparable(sumSeed, t.Splits[i])
	}
	return sum
}

// takeVHosts gives a version the draft's virtual hosts: live ones, if they are the same, and new ones.
func (d *Draft) takeVHosts(to *Version) error {
	for i := range d.vhosts {
		v := &d.vhosts[i]
		host := v.live
		if host == nil || v.changed {
			var err error
			if host, err = d.r.newVHost(v.name, v.take()); err != nil {
				return err
			}
			d.written = append(d.written, host)
		}
		host.refs++
		to.vhosts = append(to.vhosts, host)
	}
	if n := d.table.Default; n != 0 {
		to.fallback = to.vhosts[n-1]
	}
	return nil
}

func (r *Reconciler) writeTable(v *Version) error {
	table := maps.RouteTable{
		Flags: uint32(v.table.Flags), Missing: v.table.Missing,
		RequestMs: requestTime(v.table.RequestTimeout), MaxRequests: v.table.MaxRequests,
	}
	if v.fallback != nil {
		table.DefaultVhost = v.fallback.number.First
	}
	v.setPseudo(&table)
	return writes.Put(&r.stats.RouteTables, r.cfg.RouteTables, v.index.First, table)
}

// erase deletes the entries of an unlinked version that have keys of their own. What lies
// in arrays cannot be reached without them and is written over by its next owner.
func (r *Reconciler) erase(v *Version) error {
	for _, direction := range directions {
		list := &v.hosts[direction]
		for n := len(*list); n > 0; n-- {
			if err := writes.Remove(&r.stats.Hosts, r.cfg.Hosts, v.hostKey(direction, (*list)[n-1].key)); err != nil {
				return err
			}
			*list = (*list)[:n-1]
		}
	}
	if err := r.eraseFields(v); err != nil {
		return err
	}
	r.releaseVHosts(v.vhosts)
	for _, a := range v.automata {
		a.drop()
	}
	r.indices.Tables.Free(v.index)
	r.indices.Fields.Free(v.fieldNumbers)
	return nil
}
