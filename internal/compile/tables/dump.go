// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
)

var routeFlagNames = map[maps.RouteFlags]string{
	maps.RouteWebsocket: " websocket",
	maps.RouteSlow:      " slow",
}

var flagNames = []struct {
	flag maps.TableFlags
	name string
}{
	{maps.TableSlow, "slow"},
	{maps.TableHosts, "hosts"},
	{maps.TableHostPrefixes, "host_prefixes"},
	{maps.TableFields, "fields"},
	{maps.TableDraw, "draw"},
	{maps.TableIgnoresPorts, "ignores_ports"},
	{maps.TableCutsPorts, "cuts_ports"},
	{maps.TableCutsDots, "cuts_dots"},
	{maps.TablePseudo, "pseudo"},
	{maps.TableQuery, "query"},
	{maps.TableEscapes, "escapes"},
	{maps.TableDots, "dots"},
	{maps.TableSlashes, "slashes"},
	{maps.TableParameters, "parameters"},
	{maps.TablePlain, "plain"},
	{maps.TableUnderscores, "underscores"},
}

// Dump writes the table as text, for people and for golden files.
func (t *Table) Dump(w *strings.Builder) {
	var flags []string
	for _, f := range flagNames {
		if t.Flags&f.flag != 0 {
			flags = append(flags, f.name)
		}
	}
	fmt.Fprintf(w, "  table flags=[%s] vhosts=%d default=%d\n", strings.Join(flags, " "), len(t.VHosts), t.Default)
	for _, h := range t.Hosts {
		direction := "backward"
		if h.Direction == maps.HostForward {
			direction = "forward"
		}
		fmt.Fprintf(w, "  host %s %q -> vhost %d\n", direction, h.Key, h.VHost)
	}
	t.dumpFields(w)
	t.dumpPaths(w)
	for i, tuple := range t.Tuples {
		fmt.Fprintf(w, "  tuple %d order=%d number=%d slots=%v routes %d+%d\n", i, tuple.Order, tuple.Number, tuple.Slots, tuple.First, tuple.Count)
	}
	for _, b := range t.Buckets {
		fmt.Fprintf(w, "  bucket %d %v -> routes %d+%d\n", b.Tuple, b.Classes, b.First, b.Count)
	}
	for i := range t.Automata {
		a := &t.Automata[i]
		fmt.Fprintf(w, "  automaton %d: %d states, %d classes, start %d, lists %v values %#x\n", i, len(a.Accept), a.ClassCount, a.Start, a.Lists[min(1, len(a.Lists)):], a.Values[min(1, len(a.Values)):])
	}
	for i := range t.Routes {
		t.dumpRoute(w, i)
	}
}

func (t *Table) dumpFields(w *strings.Builder) {
	for _, f := range t.Fields {
		fmt.Fprintf(w, "  header %q missing=%#x present=%#x", f.Name, f.Missing, f.Present)
		if f.Slot != 0 {
			fmt.Fprintf(w, " slot=%d class=%d", f.Slot, f.Class)
		}
		if f.Automata > 0 {
			fmt.Fprintf(w, " automata %d+%d", f.Automaton, f.Automata)
		}
		fmt.Fprintln(w)
	}
	for _, v := range t.Values {
		fmt.Fprintf(w, "  header %q equals %q: %#x%s\n", t.Fields[v.Field].Name, v.Text, v.Bits, classText(v.Class))
	}
	for _, v := range t.Prefixes {
		fmt.Fprintf(w, "  header %q begins with %q: %#x%s\n", t.Fields[v.Field].Name, v.Text, v.Bits, classText(v.Class))
	}
}

func (t *Table) dumpPaths(w *strings.Builder) {
	for _, p := range t.Paths {
		fmt.Fprintf(w, "  path vhost %d %q -> routes %d+%d", p.VHost, p.Key, p.First, p.Count)
		if p.TupleCount > 0 {
			fmt.Fprintf(w, " tuples %d+%d", p.Tuple, p.TupleCount)
		}
		if p.Automata > 0 {
			fmt.Fprintf(w, " automata %d+%d", p.Automaton, p.Automata)
		}
		fmt.Fprintln(w)
	}
}

func classText(class uint32) string {
	if class == 0 {
		return ""
	}
	return fmt.Sprintf(" class=%d", class)
}

func (t *Table) dumpRoute(w *strings.Builder, i int) {
	r := &t.Routes[i]
	fmt.Fprintf(w, "  route %d order=%d need=%#x forbid=%#x timeout=%s%s", i, r.Order, r.Need, r.Forbid, r.Timeout, routeFlagNames[r.Flags])
	if r.Denominator > 0 {
		fmt.Fprintf(w, " %d of %d", r.Numerator, r.Denominator)
	}
	w.WriteString(rewriteText(r.Rewrite))
	if r.Retry != 0 {
		w.WriteString(t.Retries[r.Retry-1].text())
	}
	w.WriteString(" ->")
	if r.Count == 0 {
		fmt.Fprintf(w, " %s%s\n", cmp.Or(r.Cluster.Name, "-"), r.Criteria)
		return
	}
	for _, s := range t.Splits[r.First : r.First+r.Count] {
		fmt.Fprintf(w, " %s%s<%d", s.Cluster.Name, s.Criteria, s.Below)
	}
	fmt.Fprintf(w, " of %d\n", r.Total)
}

func (r *Retry) text() string {
	var w strings.Builder
	w.WriteString(" retry=[")
	for i := range uint32(len(r.Statuses)) * 64 {
		if r.Statuses[i/64]>>(i%64)&1 == 0 {
			continue
		}
		if w.Len() > len(" retry=[") {
			w.WriteString(" ")
		}
		fmt.Fprintf(&w, "%d", maps.FirstStatus+i)
	}
	if r.Limited {
		w.WriteString(" limited")
	}
	return w.String() + "]"
}

func rewriteText(r Rewrite) string {
	switch {
	case r.Text == "":
		return ""
	case r.Cut == WholePath:
		return fmt.Sprintf(" path=%q", r.Text)
	}
	return fmt.Sprintf(" first %d=%q", r.Cut, r.Text)
}
