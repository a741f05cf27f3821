// SPDX-License-Identifier: Apache-2.0

package match

import (
	"maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Table is a route table with its indexes. It may be used by many goroutines.
type Table struct {
	model  *model.RouteTable
	lazies *shelf
	// exact is by domain. Wildcards are by what stands beside the "*".
	exact              map[string]*host
	suffixes, prefixes wildcards
	// rest is the virtual host of "*".
	rest *host
}

// wildcards finds the longest of them.
type wildcards struct {
	byText map[string]*host
	// lengths of the texts, the longest first.
	lengths []int
}

// New indexes a table, of which nothing may be changed any more. The compiler makes automata of path
// expressions, within its limits.
func New(table *model.RouteTable, compiler *dfa.Compiler) *Table {
	return newTable(table, compiler, &shelf{})
}

func newTable(table *model.RouteTable, compiler *dfa.Compiler, lazies *shelf) *Table {
	t := &Table{
		model: table, lazies: lazies, exact: map[string]*host{},
		suffixes: wildcards{byText: map[string]*host{}}, prefixes: wildcards{byText: map[string]*host{}},
	}
	for _, vh := range table.VirtualHosts {
		h := newHost(vh, compiler)
		for _, domain := range vh.Domains {
			t.add(domain, h)
		}
	}
	t.suffixes.sort()
	t.prefixes.sort()
	return t
}

func (t *Table) add(domain string, h *host) {
	if domain == "*" {
		if t.rest == nil {
			t.rest = h
		}
		return
	}
	addNew(t.exact, domain, h)
	if suffix, ok := strings.CutPrefix(domain, "*"); ok {
		addNew(t.suffixes.byText, suffix, h)
	} else if prefix, ok := strings.CutSuffix(domain, "*"); ok {
		addNew(t.prefixes.byText, prefix, h)
	}
}

// addNew leaves what is there: of equal domains the first one counts.
func addNew(m map[string]*host, key string, h *host) {
	if _, is := m[key]; !is {
		m[key] = h
	}
}

func (w *wildcards) sort() {
	lengths := map[int]bool{}
	for text := range w.byText {
		lengths[len(text)] = true
	}
	w.lengths = slices.Sorted(maps.Keys(lengths))
	slices.Reverse(w.lengths)
}

// find returns what has the longest text that part, of that length, returns. The "*" stands for at least
// one more character.
func (w *wildcards) find(name string, part func(length int) string) *host {
	for _, length := range w.lengths {
		if length >= len(name) {
			continue
		}
		if h := w.byText[part(length)]; h != nil {
			return h
		}
	}
	return nil
}

// Match is [model.RouteTable.Match]. Unless pause is nil it calls that after each stretch of work, of some hundreds of microseconds, and returns
// nil if the request's client has gone.
func (t *Table) Match(r *matcher.Request, pause func() (gone bool)) *model.Route {
	h := t.host(r.Authority)
	if h == nil {
		return nil
	}
	at := &pace{pause: pause}
	return h.match(t, at.counted(r, t.lazies), at)
}

// host is [model.RouteTable.VirtualHost].
func (t *Table) host(authority string) *host {
	if t.model.IgnorePort {
		authority = rewrite.WithoutPort(authority)
	}
	name := ascii.Lower(authority)
	if h := t.exact[name]; h != nil {
		return h
	}
	if h := t.suffixes.find(name, func(n int) string { return name[len(name)-n:] }); h != nil {
		return h
	}
	if h := t.prefixes.find(name, func(n int) string { return name[:n] }); h != nil {
		return h
	}
	return t.rest
}
