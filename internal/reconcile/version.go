// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"reflect"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

// version is one version of one listener's route table in the maps. It belongs to its
// listener, or it is unlinked.
type version struct {
	table *compile.Table

	index, vhosts, fieldNumbers span
	routes, splits              span
	tuples, tupleNumbers        span
	automata, cells, accepts    span
	acceptedValues              span
	// hosts, paths, fields, values, prefixes and buckets are how many of the table's entries
	// may be in the maps: the first ones.
	hosts, paths, fields, values, prefixes, buckets int
}

// newVersion takes the numbers for a version and writes all of it, children first. It
// starts, and after an error stays, unlinked.
func (r *Reconciler) newVersion(t *compile.Table) (*version, error) {
	v := &version{table: t}
	r.unlinked.versions = append(r.unlinked.versions, v)
	if err := r.takeNumbers(v); err != nil {
		return nil, err
	}
	for _, write := range []func(*version) error{
		r.writeSplits, r.writeRoutes, r.writeBuckets, r.writeTuples, r.writeAutomata, r.writeValues, r.writePrefixes, r.writeFields,
		r.writePaths, r.writeHosts, r.writeTable,
	} {
		if err := write(v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// holds reports whether the version is the compiled table. Comparing clusters by name is
// enough: one that a live table names keeps its index.
func (v *version) holds(t *compile.Table) bool {
	return v != nil && reflect.DeepEqual(v.table, t)
}

// checkClusters refuses an image with a route to a cluster that it does not have.
func checkClusters(im *compile.Image) error {
	known := map[string]bool{}
	for i := range im.Clusters {
		known[im.Clusters[i].Name] = true
	}
	for i := range im.Listeners {
		l := &im.Listeners[i]
		for _, name := range clusterNames(&l.Table) {
			if !known[name] {
				return fmt.Errorf("listener %q: a route names cluster %q, which the configuration does not have; add it", l.Name, name)
			}
		}
	}
	return nil
}

// clusterNames lists the clusters of a table's routes, with repetitions.
func clusterNames(t *compile.Table) []string {
	var names []string
	for i := range t.Routes {
		if t.Routes[i].Count == 0 && t.Routes[i].Flags&maps.RouteSlow == 0 {
			names = append(names, t.Routes[i].Cluster)
		}
	}
	for i := range t.Splits {
		names = append(names, t.Splits[i].Cluster)
	}
	return names
}

func (r *Reconciler) takeNumbers(v *version) error {
	blocks, accepts, values := automataNumbers(v.table)
	for _, t := range []struct {
		into *span
		from *ranges
		n    int
	}{
		{&v.index, r.numbers.tables, 1},
		{&v.vhosts, r.numbers.vhosts, int(v.table.VHosts)},
		{&v.routes, r.numbers.routes, len(v.table.Routes)},
		{&v.splits, r.numbers.splits, len(v.table.Splits)},
		{&v.tuples, r.numbers.tuples, len(v.table.Tuples)},
		{&v.tupleNumbers, r.numbers.tupleNumbers, int(v.table.TupleNumbers)},
		{&v.fieldNumbers, r.numbers.fields, len(v.table.Fields)},
		{&v.automata, r.numbers.automata, len(v.table.Automata)},
		{&v.cells, r.numbers.cells, blocks},
		{&v.accepts, r.numbers.accepts, accepts},
		{&v.acceptedValues, r.numbers.acceptedValues, values},
	} {
		s, err := t.from.take(uint32(t.n))
		if err != nil {
			return err
		}
		*t.into = s
	}
	return nil
}

func (r *Reconciler) giveNumbers(v *version) {
	r.numbers.tables.give(v.index)
	r.numbers.vhosts.give(v.vhosts)
	r.numbers.routes.give(v.routes)
	r.numbers.splits.give(v.splits)
	r.numbers.tuples.give(v.tuples)
	r.numbers.tupleNumbers.give(v.tupleNumbers)
	r.numbers.fields.give(v.fieldNumbers)
	r.numbers.automata.give(v.automata)
	r.numbers.cells.give(v.cells)
	r.numbers.accepts.give(v.accepts)
	r.numbers.acceptedValues.give(v.acceptedValues)
}

func (r *Reconciler) writeSplits(v *version) error {
	for i, s := range v.table.Splits {
		split := maps.Split{Below: s.Below, Cluster: r.clusters[s.Cluster].index}
		if err := put(&r.stats.Splits, r.cfg.Splits, v.splits.first+uint32(i), split); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) writeRoutes(v *version) error {
	for i := range v.table.Routes {
		if err := put(&r.stats.Routes, r.cfg.Routes, v.routes.first+uint32(i), r.routeOf(v, i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) routeOf(v *version, i int) maps.Route {
	from := &v.table.Routes[i]
	to := maps.Route{
		Need: from.Need, Forbid: from.Forbid, TimeoutNs: uint64(max(from.Timeout, 0)), Flags: uint32(from.Flags), Order: from.Order,
	}
	to.Numerator, to.Denominator = from.Numerator, from.Denominator
	if from.Flags&maps.RouteSlow != 0 {
		return to // its cluster is never read
	}
	if from.Count == 0 {
		to.First = r.clusters[from.Cluster].index
		return to
	}
	to.First, to.Count, to.Total = v.splits.first+from.First, from.Count, from.Total
	return to
}

func (r *Reconciler) writePaths(v *version) error {
	for _, p := range v.table.Paths {
		v.paths++
		value := v.candidates(p.List)
		value.Automaton, value.Automata = v.automata.first+p.Automaton, p.Automata
		if err := put(&r.stats.Paths, r.cfg.Paths, v.pathKey(p), value); err != nil {
			return err
		}
	}
	return nil
}

// candidates is a list with the indices that the version has in the maps.
func (v *version) candidates(l compile.List) maps.Candidates {
	return maps.Candidates{First: v.routes.first + l.First, Count: l.Count, Tuple: v.tuples.first + l.Tuple, TupleCount: l.TupleCount}
}

// scopeBits are the bits of a trie key before its text: a number of 32 bits.
const scopeBits = 32

func (v *version) pathKey(p compile.Path) maps.PathKey {
	key := maps.PathKey{PrefixLen: scopeBits + 8*uint32(len(p.Key)), Vhost: v.vhosts.nth(p.VHost)}
	copy(key.Path[:], p.Key)
	return key
}

func (r *Reconciler) writeHosts(v *version) error {
	for _, h := range v.table.Hosts {
		v.hosts++
		if err := put(&r.stats.Hosts, r.cfg.Hosts, v.hostKey(h), v.vhosts.nth(h.VHost)); err != nil {
			return err
		}
	}
	return nil
}

func (v *version) hostKey(h compile.Host) maps.HostKey {
	key := maps.HostKey{PrefixLen: scopeBits + 8*uint32(len(h.Key)), Scope: v.index.first*2 + uint32(h.Direction)}
	copy(key.Host[:], h.Key)
	return key
}

func (r *Reconciler) writeTable(v *version) error {
	table := maps.RouteTable{Flags: uint32(v.table.Flags), DefaultVhost: v.vhosts.nth(v.table.Default), Missing: v.table.Missing}
	v.setPseudo(&table)
	return put(&r.stats.RouteTables, r.cfg.RouteTables, v.index.first, table)
}

// erase deletes the entries of an unlinked version that have keys of their own. What lies
// in arrays cannot be reached without them and is written over by its next owner.
func (r *Reconciler) erase(v *version) error {
	for ; v.hosts > 0; v.hosts-- {
		if err := remove(&r.stats.Hosts, r.cfg.Hosts, v.hostKey(v.table.Hosts[v.hosts-1])); err != nil {
			return err
		}
	}
	for ; v.paths > 0; v.paths-- {
		if err := remove(&r.stats.Paths, r.cfg.Paths, v.pathKey(v.table.Paths[v.paths-1])); err != nil {
			return err
		}
	}
	if err := r.eraseBuckets(v); err != nil {
		return err
	}
	return r.eraseFields(v)
}
