// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random cases; 0 takes the time")

const (
	randomTables     = 6000
	requestsPerTable = 30
	// leastOften is how often each outcome must occur for the test to mean anything.
	leastOften = 200
)

func TestCompiledTableRoutesAsTheModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	w := newWorld(seed)
	found := map[maps.Verdict]int{}
	indexed := 0
	for range randomTables {
		rt := w.table()
		compiled, _ := compileTable("table", rt)
		if err := withinLimits(&compiled); err != nil {
			t.Fatal(err)
		}
		if len(compiled.Tuples) > 0 {
			indexed++
		}
		for range requestsPerTable {
			r := w.request()
			verdict, err := agree(rt, &compiled, r)
			if err != nil {
				t.Fatalf("%v\n%s", err, describe(rt, &compiled, r))
			}
			found[verdict]++
		}
	}
	for _, v := range []maps.Verdict{
		maps.VerdictOk, maps.HandoverNoRoute, maps.HandoverNoVHost, maps.HandoverHost, maps.HandoverTableSlow, maps.HandoverRouteSlow,
		maps.HandoverRepeatedField, maps.HandoverTooManyParameters, maps.HandoverNormalize,
	} {
		t.Logf("%s: %d", maps.VerdictName(v), found[v])
		if found[v] < leastOften {
			t.Errorf("%s occurred %d times, want at least %d", maps.VerdictName(v), found[v], leastOften)
		}
	}
	if t.Logf("%d tables with an index", indexed); indexed < leastOften {
		t.Errorf("%d tables with an index, want at least %d", indexed, leastOften)
	}
	// Handing everything over would agree as well.
	if slow, all := found[maps.HandoverRouteSlow], randomTables*requestsPerTable; slow*5 > all {
		t.Errorf("%d of %d requests were handed over for a slow route, want one in five at most", slow, all)
	}
}

func FuzzCompiledTableRoutesAsTheModel(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7919)
	}
	f.Fuzz(func(t *testing.T, tableSeed, requestSeed uint64) {
		rt := newWorld(tableSeed).table()
		compiled, _ := compileTable("table", rt)
		w := newWorld(requestSeed)
		for range 8 {
			r := w.request()
			if _, err := agree(rt, &compiled, r); err != nil {
				t.Fatalf("%v\n%s", err, describe(rt, &compiled, r))
			}
		}
	})
}

// agree compares the compiled table with the model for one request.
func agree(rt *model.RouteTable, compiled *tables.Table, r *matcher.Request) (maps.Verdict, error) {
	draw := r.Draw
	applied := *r
	applied.Authority = rt.Host.Apply(r.Authority)
	want := rt.Match(&applied)
	got, verdict := compiled.Route(r)
	path, outcome := rt.Path.Apply(r.Path)
	switch verdict {
	case maps.HandoverTableSlow, maps.HandoverRouteSlow, maps.HandoverHost, maps.HandoverRepeatedField, maps.HandoverMalformed,
		maps.HandoverTooManyParameters, maps.HandoverNormalize:
		return verdict, nil
	}
	if path != r.Path || outcome != rewrite.PathTaken {
		return verdict, fmt.Errorf("compiled: %s, model: path %q, outcome %d", maps.VerdictName(verdict), path, outcome)
	}
	switch verdict {
	case maps.HandoverNoRoute, maps.HandoverNoVHost:
		if want != nil {
			return verdict, fmt.Errorf("compiled: %s, model: route with timeout %s", maps.VerdictName(verdict), want.Timeout)
		}
		return verdict, nil
	case maps.VerdictOk:
	default:
		return verdict, fmt.Errorf("compiled: unexpected verdict %s", maps.VerdictName(verdict))
	}
	if want == nil {
		return verdict, fmt.Errorf("compiled: route %+v, model: none", *got)
	}
	if want.Filters.CORS != nil && len(r.Values("origin")) > 0 {
		return verdict, fmt.Errorf("compiled: route %+v, model: with a CORS policy for this origin", *got)
	}
	if got.Timeout != want.Timeout {
		return verdict, fmt.Errorf("compiled: timeout %s, model: %s", got.Timeout, want.Timeout)
	}
	if got.Flags&maps.RouteWebsocket != 0 != want.Allows(model.UpgradeWebSocket) {
		return verdict, fmt.Errorf("compiled: flags %#x, model: upgrades %q", got.Flags, want.Upgrades)
	}
	if target := targetOf(want, r.Path); apply(got.Rewrite, r.Path) != target {
		return verdict, fmt.Errorf("compiled: asks for %s, model: %s", apply(got.Rewrite, r.Path), target)
	}
	if name, _ := compiled.ClusterOf(got, draw); name.Name != want.Share(draw).Name {
		return verdict, fmt.Errorf("compiled: cluster %q for draw %d, model: %q", name, draw, want.Share(draw).Name)
	}
	return verdict, nil
}

// withinLimits checks what the kernel's structures can hold.
func withinLimits(t *tables.Table) error {
	for _, h := range t.Hosts {
		if len(h.Key) > int(maps.MaxHost)+1 || h.VHost == 0 || h.VHost > uint32(len(t.VHosts)) {
			return fmt.Errorf("host entry out of bounds: %+v", h)
		}
	}
	for _, p := range t.Paths {
		if len(p.Key) > int(maps.MaxPath)+1 || p.Count+p.TupleCount+p.Automata == 0 || p.Count > uint32(maps.MaxCandidates) ||
			p.TupleCount > uint32(maps.MaxTuples) || p.Automata > uint32(maps.MaxAutomata) || int(p.Automaton+p.Automata) > len(t.Automata) {
			return fmt.Errorf("path entry out of bounds: %+v", p)
		}
	}
	for _, f := range t.Fields {
		if len(f.Name) > int(maps.MaxFieldName) {
			return fmt.Errorf("field out of bounds: %+v", f)
		}
	}
	for _, v := range slices.Concat(t.Values, t.Prefixes) {
		if len(v.Text) > int(maps.MaxFieldValue) || v.Field >= uint32(len(t.Fields)) {
			return fmt.Errorf("value out of bounds: %+v", v)
		}
	}
	return nil
}

func describe(rt *model.RouteTable, compiled *tables.Table, r *matcher.Request) string {
	var w strings.Builder
	fmt.Fprintf(&w, "request %q %q %q", r.Method, r.Authority, r.Path)
	for _, name := range []string{"x", "y", "z", "v", "host", "origin", "content-length", "x-forwarded-proto"} {
		for _, v := range r.Values(name) {
			fmt.Fprintf(&w, " %s=%q", name, v)
		}
	}
	w.WriteString("\n")
	for _, vh := range rt.VirtualHosts {
		fmt.Fprintf(&w, "virtual host %q\n", vh.Domains)
		for _, route := range vh.Routes {
			fmt.Fprintf(&w, "  %+v\n", *route)
		}
	}
	compiled.Dump(&w)
	return w.String()
}
