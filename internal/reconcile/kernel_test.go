// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// kernel reads the maps as bpf/lib/router.h and bpf/request.bpf.c do, and knows
// nothing of how they were written.
type kernel struct {
	cfg *maps.Config
	sh  *maps.Shared
}

// routing is what the kernel finds for a request.
type routing struct {
	cluster uint32
	timeout time.Duration
	flags   maps.RouteFlags
	verdict maps.Verdict
	rewrite maps.Rewrite
}

func at[V any](t bpfmap.Table[uint32, V], index uint32) V {
	v, _, _ := t.Lookup(index)
	return v
}

func (k kernel) route(number uint32, r *matcher.Request, draw uint32) routing {
	return k.routeIn(k.table(number), r, draw)
}

// table is the table that a connection with that number of a listener is led by; 0: the listener has gone.
func (k kernel) table(number uint32) uint32 {
	l := at(k.cfg.Listeners, k.cfg.Sizes.ListenerIndex(number))
	if l.Number != number {
		return 0
	}
	return l.Table
}

// routeIn is what a program does that has read the listener.
func (k kernel) routeIn(index uint32, r *matcher.Request, draw uint32) routing {
	found := k.find(index, r)
	return k.decide(found, r, draw)
}

// found is what a program knows when it has looked host, path and headers up.
type found struct {
	// verdict, if there is one already.
	verdict    maps.Verdict
	candidates maps.Candidates
	held       held
}

func (k kernel) find(index uint32, r *matcher.Request) found {
	if index == 0 {
		return found{verdict: maps.HandoverListenerGone}
	}
	table := at(k.cfg.RouteTables, index)
	if table.Flags&uint32(maps.TableSlow) != 0 {
		return found{verdict: maps.HandoverTableSlow}
	}
	vhost := k.vhost(index, table, strings.ToLower(r.Authority))
	if vhost == 0 {
		return found{verdict: maps.HandoverNoVHost}
	}
	candidates, ok := k.candidates(vhost, r.Path)
	if !ok {
		return found{verdict: maps.HandoverNoRoute}
	}
	return found{candidates: candidates, held: k.conditions(index, table, r)}
}

// decide does the rest.
func (k kernel) decide(f found, r *matcher.Request, draw uint32) routing {
	if f.verdict != maps.VerdictOk {
		return routing{verdict: f.verdict}
	}
	best := k.best(nil, f.candidates, f.held)
	for i := range f.candidates.Automata {
		best = k.best(best, k.accepted(at(k.cfg.Automata, f.candidates.Automaton+i), r.Path), f.held)
	}
	switch {
	case best == nil:
		return routing{verdict: maps.HandoverNoRoute}
	case best.Flags&uint32(maps.RouteSlow) != 0:
		return routing{verdict: maps.HandoverRouteSlow}
	default:
		return k.choose(*best, draw)
	}
}

// best is the first of the candidates that hold, or what was found before if that comes before it.
func (k kernel) best(best *maps.Route, candidates maps.Candidates, held held) *maps.Route {
	best = k.first(best, candidates.First, candidates.Count, held.bits)
	for i := range candidates.TupleCount {
		tuple := at(k.cfg.Tuples, candidates.Tuple+i)
		if best != nil && best.Order <= tuple.Order {
			break
		}
		if tuple.Number == 0 {
			best = k.first(best, tuple.First, tuple.Count, held.bits)
			continue
		}
		key := maps.BucketKey{Tuple: tuple.Number}
		for j, slot := range tuple.Slots {
			key.Classes[j] = held.classes[slot]
		}
		if bucket, found, _ := k.cfg.Buckets.Lookup(key); found {
			word := at(k.cfg.BucketLists, bucket)
			best = k.first(best, uint32(word), uint32(word>>32), held.bits)
		}
	}
	return best
}

// first is the first of a list that holds, or what was found before if that comes before it.
func (k kernel) first(best *maps.Route, first, count uint32, bits uint64) *maps.Route {
	for i := range count {
		route := at(k.cfg.Routes, first+i)
		if best != nil && best.Order <= route.Order {
			break
		}
		if bits&route.Need == route.Need && bits&route.Forbid == 0 {
			return &route
		}
	}
	return best
}

// accepted walks an automaton with a path of fewer than MaxPath bytes.
func (k kernel) accepted(a maps.Automaton, path string) maps.Candidates {
	path, _, _ = strings.Cut(path, "?")
	state := a.Start
	for _, c := range []byte(path) {
		state = k.cell(a.Next, state*a.ClassCount+uint32(a.Classes[c]))
	}
	return k.listOf(a, k.cell(a.Accept, state))
}

// listOf is a list of an automaton for paths.
func (k kernel) listOf(a maps.Automaton, number uint32) maps.Candidates {
	const perPage = uint32(maps.ListsPerPage)
	return at(k.cfg.Accepts, k.cell(a.Lists, number/perPage)*perPage+number%perPage)
}

func (k kernel) cell(first, index uint32) uint32 {
	block := at(k.cfg.Cells, first+index/uint32(maps.CellsPerBlock))
	return uint32(block.Of[index%uint32(maps.CellsPerBlock)])
}

func (k kernel) vhost(index uint32, table maps.RouteTable, host string) uint32 {
	var vhost uint32
	if table.Flags&uint32(maps.TableHosts) != 0 {
		var backward strings.Builder
		for i := len(host) - 1; i >= 0; i-- {
			backward.WriteByte(host[i])
		}
		vhost = k.longestHost(index*2, backward.String()+"\x00")
	}
	if vhost == 0 && table.Flags&uint32(maps.TableHostPrefixes) != 0 {
		vhost = k.longestHost(index*2+1, host)
	}
	if vhost == 0 {
		vhost = table.DefaultVhost
	}
	return vhost
}

func (k kernel) longestHost(scope uint32, host string) uint32 {
	var best, vhost uint32
	k.cfg.Hosts.Each(func(key maps.HostKey, v uint32) bool {
		text := string(key.Host[:(key.PrefixLen-32)/8])
		if key.Scope == scope && strings.HasPrefix(host, text) && key.PrefixLen > best {
			best, vhost = key.PrefixLen, v
		}
		return true
	})
	return vhost
}

func (k kernel) candidates(vhost uint32, path string) (found maps.Candidates, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	path = path[:min(len(path), int(maps.MaxPath))] + "\x00"
	if lengths := at(k.cfg.VHosts, vhost); lengths != 0 {
		return k.firstOf(vhost, path, lengths)
	}
	var best uint32
	k.cfg.Paths.Each(func(key maps.PathKey, v maps.Candidates) bool {
		text := string(key.Path[:(key.PrefixLen-32)/8])
		if key.Vhost == vhost && strings.HasPrefix(path, text) && key.PrefixLen > best {
			best, found, ok = key.PrefixLen, v, true
		}
		return true
	})
	return found, ok
}

// firstOf tries the lengths in their order.
func (k kernel) firstOf(vhost uint32, path string, lengths uint64) (found maps.Candidates, ok bool) {
	for ; lengths != 0; lengths >>= 8 {
		n := int(lengths&0xff) - 1
		if lengths&0xff == uint64(maps.WholePath) {
			n = len(path)
		}
		if n > len(path) || n > int(maps.MaxPathText) {
			continue
		}
		key := maps.PathText{Vhost: vhost, Len: uint32(n)}
		copy(key.Text[:], path[:n])
		if found, ok, _ = k.cfg.PathTexts.Lookup(key); ok {
			return found, true
		}
	}
	return maps.Candidates{}, false
}

// held is what the kernel knows of a request's headers.
type held struct {
	bits    uint64
	classes [maps.MaxClasses]uint32
}

func (k kernel) conditions(index uint32, table maps.RouteTable, r *matcher.Request) held {
	h := held{bits: table.Missing}
	if table.Flags&uint32(maps.TableFields|maps.TablePseudo|maps.TableQuery) == 0 {
		return h
	}
	k.cfg.Fields.Each(func(key maps.FieldKey, v maps.AskedField) bool {
		if value, found := valueOf(r, string(key.Name[:key.Len])); key.Table == index && found && table.Flags&flagOf(key) != 0 {
			h.take(v, k.value(v, value))
		}
		return true
	})
	for at, value := range map[maps.PseudoHeader]string{maps.PseudoMethod: r.Method, maps.PseudoPath: r.Path} {
		if asked := table.Pseudo[at]; asked.Number != 0 {
			h.take(asked, k.value(asked, value))
		}
	}
	return h
}

// flagOf is without what the program does not read the names that a key is one of.
func flagOf(key maps.FieldKey) uint32 {
	if key.Name[0] == '?' {
		return uint32(maps.TableQuery)
	}
	return uint32(maps.TableFields)
}

// valueOf is the first value of a header, or of a parameter of the query.
func valueOf(r *matcher.Request, name string) (value string, found bool) {
	if parameter, is := strings.CutPrefix(name, "?"); is {
		return r.QueryValue(parameter)
	}
	values := r.Values(name)
	return strings.Join(values, ""), len(values) == 1
}

func (h *held) take(asked maps.AskedField, v maps.Value) {
	h.bits = h.bits&^asked.Missing | v.Bits
	if asked.Slot != 0 {
		h.classes[asked.Slot] = v.Class
	}
}

func (k kernel) value(asked maps.AskedField, value string) maps.Value {
	key := maps.ValueKey{PrefixLen: 32 + 8*uint32(len(value)), Field: asked.Number}
	copy(key.Value[:], value)
	if v, found, _ := k.cfg.Values.Lookup(key); found && asked.Flags&uint32(maps.AskedValues) != 0 {
		return v
	}
	out, best := maps.Value{Bits: asked.Bits, Class: asked.Class}, uint32(0)
	matching := uint64(0)
	for i := range asked.Automata {
		a := at(k.cfg.Automata, asked.Automaton+i)
		state := a.Start
		for _, c := range []byte(value) {
			state = k.cell(a.Next, state*a.ClassCount+uint32(a.Classes[c]))
		}
		matching |= at(k.cfg.AcceptedValues, a.Lists+k.cell(a.Accept, state)).Bits
	}
	k.cfg.Prefixes.Each(func(key maps.ValueKey, v maps.Value) bool {
		text := string(key.Value[:(key.PrefixLen-32)/8])
		if asked.Flags&uint32(maps.AskedPrefixes) != 0 && key.Field == asked.Number && strings.HasPrefix(value, text) && key.PrefixLen > best {
			out, best = v, key.PrefixLen
		}
		return true
	})
	out.Bits |= matching
	return out
}

func (k kernel) choose(r maps.Route, draw uint32) routing {
	out := routing{cluster: r.First, timeout: time.Duration(r.TimeoutNs), flags: maps.RouteFlags(r.Flags)}
	if r.Rewrite != 0 {
		out.rewrite = at(k.cfg.Rewrites, r.Rewrite)
	}
	if r.Count == 0 {
		return out
	}
	for i := range r.Count {
		if s := at(k.cfg.Splits, r.First+i); draw%r.Total < s.Below {
			out.cluster = s.Cluster
			return out
		}
	}
	return routing{verdict: maps.HandoverNoCluster}
}

// target is what a routed request's becomes, as in bpf/lib/edit.h.
func (r routing) target(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if r.rewrite.Len == 0 {
		return target
	}
	return string(r.rewrite.Text[:r.rewrite.Len]) + target[min(int(r.rewrite.Cut), len(path)):]
}

// schedule are the endpoints that a cluster's schedule lists.
func (k kernel) schedule(cluster uint32) []uint32 {
	return k.endpointsBelow(uint32(k.sh.Clusters[cluster].Root))
}

// endpointsBelow lists the endpoints of a group, those of each group in it as often as that has an entry.
func (k kernel) endpointsBelow(group uint32) (endpoints []uint32) {
	g := &k.sh.Groups[group]
	schedule := k.scheduleAt(g.Schedule)
	if g.Flags&uint32(maps.GroupOfGroups) == 0 {
		return schedule
	}
	for _, below := range schedule {
		endpoints = append(endpoints, k.endpointsBelow(below)...)
	}
	return endpoints
}

func (k kernel) scheduleAt(word uint64) []uint32 {
	first, n := uint32(word), uint32(word>>32)
	schedule := make([]uint32, n)
	for i := range schedule {
		schedule[i] = uint32(k.sh.Schedules[first+uint32(i)])
	}
	return schedule
}
