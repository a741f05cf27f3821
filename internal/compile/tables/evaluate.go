// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Route evaluates the table as bpf/lib/router.h does. The verdict is VerdictOk with
// a route, and otherwise the reason why the kernel hands the request over. Authority and path are those of the request, before
// anything is cut off or changed (rewrite.HostRule, rewrite.PathRule).
func (t *Table) Route(r *matcher.Request) (*Route, maps.Verdict) {
	if t.Flags&maps.TableSlow != 0 {
		return nil, maps.HandoverTableSlow
	}
	if !isTarget(r.Path) {
		return nil, maps.HandoverMalformed
	}
	if !isHost(r.Authority) {
		return nil, maps.HandoverHost
	}
	if r.Scheme != "" && r.Scheme != matcher.SchemeOf("", r.Values("x-forwarded-proto")) {
		return nil, maps.HandoverTargetForm // only a target in absolute form says such a thing
	}
	if failure := t.scanFields(r); failure != maps.VerdictOk {
		return nil, failure
	}
	// What begins with a colon names no host (RFC 9110, section 4.2.1).
	if r.Authority[0] == ':' || t.cuts(r.Authority) {
		return nil, maps.HandoverHost
	}
	if t.Flags&pathMarks(r.Path) != 0 {
		return nil, maps.HandoverNormalize
	}
	host := ascii.Lower(r.Authority)
	if t.Flags&maps.TableIgnoresPorts != 0 {
		host = rewrite.WithoutPort(host)
	}
	vhost := t.vhost(host)
	if vhost == 0 {
		return nil, maps.HandoverNoVHost
	}
	path, _, _ := strings.Cut(r.Path, "?")
	path = path[:min(len(path), int(maps.MaxPath))]
	entry := t.path(vhost, path)
	if entry == nil {
		return nil, maps.HandoverNoRoute
	}
	held, failure := t.conditions(r)
	if failure != maps.VerdictOk {
		return nil, failure
	}
	held.draw = r.Draw
	won := t.first(&entry.List, held, nil)
	for i := range entry.Automata {
		list, isCut := t.Automata[entry.Automaton+i].accepts(path)
		if isCut {
			return nil, maps.HandoverRouteSlow
		}
		won = t.first(&list, held, won)
	}
	switch {
	case won == nil:
		return nil, maps.HandoverNoRoute
	case won.Flags&maps.RouteSlow != 0:
		return nil, maps.HandoverRouteSlow
	}
	return won, maps.VerdictOk
}

// held is what is known of a request besides its path.
type held struct {
	// draw is its random number.
	draw uint64
	// bits are the conditions that hold.
	bits uint64
	// classes of values, by slot.
	classes [maps.MaxClasses]uint32
}

// first returns the first route of a list whose conditions hold, if it comes before the best so far, as
// bpf/lib/index.h does.
func (t *Table) first(l *List, h *held, best *Route) *Route {
	best = t.firstOf(l.First, l.Count, h, best)
	for _, tuple := range t.Tuples[l.Tuple : l.Tuple+l.TupleCount] {
		if best != nil && tuple.Order >= best.Order {
			break
		}
		if tuple.Number == 0 {
			best = t.firstOf(tuple.First, tuple.Count, h, best)
			continue
		}
		key := Bucket{Tuple: tuple.Number}
		for i, slot := range tuple.Slots {
			key.Classes[i] = h.classes[slot]
		}
		if i, found := slices.BinarySearchFunc(t.Buckets, key, compareBuckets); found {
			best = t.firstOf(t.Buckets[i].First, t.Buckets[i].Count, h, best)
		}
	}
	return best
}

// firstOf returns the first of a list whose conditions hold, if it comes before the best so far.
func (t *Table) firstOf(first, count uint32, h *held, best *Route) *Route {
	for i := first; i < first+count; i++ {
		c := &t.Routes[i]
		if best != nil && c.Order >= best.Order {
			break
		}
		if h.bits&c.Need == c.Need && h.bits&c.Forbid == 0 && c.takes(h.draw) {
			return c
		}
	}
	return best
}

func compareBuckets(a, b Bucket) int {
	return cmp.Or(cmp.Compare(a.Tuple, b.Tuple), slices.Compare(a.Classes[:], b.Classes[:]))
}

// takes reports whether the draw falls into the route's share of the requests.
func (r *Route) takes(draw uint64) bool {
	return r.Denominator == 0 || draw%uint64(r.Denominator) < uint64(r.Numerator)
}

// ClusterOf returns the cluster that a request's draw, any number, falls on, and the criteria that name its subset.
func (t *Table) ClusterOf(r *Route, draw uint64) (key model.ClusterKey, criteria model.Metadata) {
	if r.Count == 0 {
		return r.Cluster, r.Criteria
	}
	draw %= uint64(r.Total)
	for _, s := range t.Splits[r.First : r.First+r.Count] {
		if draw < uint64(s.Below) {
			return s.Cluster, s.Criteria
		}
	}
	return model.ClusterKey{}, ""
}

// Clusters are those that routes lead to, with repetitions.
func (t *Table) Clusters() iter.Seq[model.ClusterKey] {
	return func(yield func(model.ClusterKey) bool) {
		for i := range t.Routes {
			if r := &t.Routes[i]; r.Count == 0 && r.Flags&maps.RouteSlow == 0 && !yield(r.Cluster) {
				return
			}
		}
		for i := range t.Splits {
			if !yield(t.Splits[i].Cluster) {
				return
			}
		}
	}
}

// isHost reports whether the kernel looks a host up at all: is_host() in bpf/lib/ctype.h.
func isHost(host string) bool {
	foreign := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-.:[]_~", c)
	}
	return host != "" && len(host) <= int(maps.MaxHost) && !strings.ContainsFunc(host, foreign)
}

// isTarget reports whether the kernel reads a path with its query: is_target() in bpf/lib/ctype.h.
func isTarget(path string) bool {
	foreign := func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"#<>[\\]^`{|}", c)
	}
	return !strings.ContainsFunc(path, foreign)
}

// cuts reports whether the slow path might change a host, which the kernel judges more strictly than that.
func (t *Table) cuts(host string) bool {
	if t.Flags&maps.TableCutsPorts != 0 && rewrite.WithoutPort(host) != host {
		return true
	}
	return t.Flags&maps.TableCutsDots != 0 && (strings.HasSuffix(host, ".") || strings.Contains(host, ".:"))
}

func (t *Table) vhost(host string) uint32 {
	if t.Flags&maps.TableHosts != 0 {
		if vhost := t.longestHost(maps.HostBackward, Reversed(host)+Terminator); vhost != 0 {
			return vhost
		}
	}
	if t.Flags&maps.TableHostPrefixes != 0 {
		if vhost := t.longestHost(maps.HostForward, host); vhost != 0 {
			return vhost
		}
	}
	return t.Default
}

func (t *Table) longestHost(d maps.HostDirection, host string) uint32 {
	best := -1
	for i, h := range t.Hosts {
		if h.Direction == d && strings.HasPrefix(host, h.Key) && (best < 0 || len(h.Key) > len(t.Hosts[best].Key)) {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return t.Hosts[best].VHost
}

// path looks up a path without its query, cut to what the kernel compares.
func (t *Table) path(vhost uint32, path string) *Path {
	path += Terminator
	best := -1
	for i, p := range t.Paths {
		if p.VHost == vhost && strings.HasPrefix(path, p.Key) && (best < 0 || len(p.Key) > len(t.Paths[best].Key)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &t.Paths[best]
}

// scanFields hands over a header that occurs twice, and more of the asked headers than MaxFields.
func (t *Table) scanFields(r *matcher.Request) maps.Verdict {
	var seen int
	for _, f := range t.Fields {
		if KindOf(f.Name) != maps.TableFields {
			continue
		}
		switch n := len(r.Values(f.Name)); {
		case n > 1:
			return maps.HandoverRepeatedField
		case n == 1:
			seen++
		}
	}
	if seen > int(maps.MaxFields) {
		return maps.HandoverTooManyFields
	}
	return maps.VerdictOk
}

// hasTooManyParameters reports whether the kernel gives up on a query of which routes ask about parameters.
func (t *Table) hasTooManyParameters(r *matcher.Request) bool {
	var seen int
	for _, f := range t.Fields {
		if KindOf(f.Name) == maps.TableQuery {
			seen += len(ValuesOf(r, f.Name))
		}
	}
	_, query, _ := strings.Cut(r.Path, "?")
	return t.Flags&maps.TableQuery != 0 && (seen > int(maps.MaxFields) || strings.Count(query, "&")+1 > int(maps.MaxParameters))
}

// conditions returns what is known of the headers. A value with whitespace behind it is handed over.
func (t *Table) conditions(r *matcher.Request) (*held, maps.Verdict) {
	if t.hasTooManyParameters(r) {
		return nil, maps.HandoverTooManyParameters
	}
	h := held{bits: t.Missing}
	for i, f := range t.Fields {
		values := ValuesOf(r, f.Name)
		if len(values) == 0 {
			continue
		}
		value := values[0]
		if strings.TrimRight(value, " \t") != value {
			return nil, maps.HandoverMalformed
		}
		bits, class := t.valueOf(i, value)
		h.bits = h.bits&^f.Missing | bits
		if f.Slot != 0 {
			h.classes[f.Slot] = class
		}
	}
	return &h, maps.VerdictOk
}

// pathMarks are the flags that hand a request with this target over: request_path_mark() in bpf/lib/http1.h.
func pathMarks(target string) (flags maps.TableFlags) {
	path, _, _ := strings.Cut(target, "?")
	if strings.Contains(path, "%") {
		flags |= maps.TableEscapes
	}
	if strings.Contains(path, ";") {
		flags |= maps.TableParameters
	}
	if strings.Contains(path, "/.") {
		flags |= maps.TableDots
	}
	if strings.Contains(path, "//") {
		flags |= maps.TableSlashes
	}
	return flags
}
