// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// serve puts a configuration into the maps, and returns what asks them.
func (k *kernel) serve(t *testing.T, cfg *model.Config) *explain.State {
	t.Helper()
	image, notes := compile.Compile(cfg)
	if _, err := k.reconciler.Apply(image); err != nil {
		t.Fatal(err)
	}
	return &explain.State{
		Config: cfg, Notes: notes, Decide: k.decide,
		Endpoints: func(model.ClusterKey) ([]explain.Endpoint, error) { return nil, nil },
	}
}

func (k *kernel) decide(l *model.Listener, r *matcher.Request, head []byte) (explain.Decision, error) {
	number, known, err := k.datapath.Config.VIPs.Lookup(maps.KeyOf(l.Address))
	if err != nil || !known {
		return explain.Decision{}, fmt.Errorf("address of %s: known: %t, %w", l.Name, known, err)
	}
	e, err := k.datapath.Explain(number, r.Draw, head)
	d := explain.Decision{By: explain.ByKernel, Verdict: maps.Verdict(e.Verdict), Timeout: time.Duration(e.TimeoutNs)}
	for _, c := range k.reconciler.Clusters() {
		if c.Index == e.Cluster {
			d.Cluster = c.Key.Name
		}
	}
	return d, err
}

// sentHeaders are those of the generator that a head may have: its "host" is not the authority, its lengths are no numbers.
var sentHeaders = []string{"x", "y", "z", "v", "content-type", "cookie", "origin", "x-forwarded-proto"}

// queryOf asks about a request of the generator.
func queryOf(r *matcher.Request) *explain.Query {
	q := &explain.Query{Method: r.Method, URL: "http://host" + r.Path, Listener: "web", Draw: uint32(r.Draw)}
	// Not every host that the kernel reads is one of a URL.
	q.Headers = append(q.Headers, "host: "+r.Authority)
	for _, name := range sentHeaders {
		for _, v := range r.Values(name) {
			q.Headers = append(q.Headers, name+": "+v)
		}
	}
	return q
}

// asSent is the request as it stands in the head of queryOf.
func asSent(r *matcher.Request) *matcher.Request {
	sent := *r
	sent.Draw = uint64(uint32(r.Draw))
	sent.Scheme = "http" // without X-Forwarded-Proto
	sent.Values = func(name string) []string {
		switch {
		case name == "host":
			return []string{r.Authority}
		case slices.Contains(sentHeaders, name):
			values := slices.Clone(r.Values(name))
			for i, v := range values {
				values[i] = strings.TrimSpace(v)
			}
			return values
		}
		return nil
	}
	sent.Scheme = matcher.SchemeOf("", sent.Values("x-forwarded-proto"))
	return &sent
}

func TestKernelRoutesAsTheModelAndTheCompiledTable(t *testing.T) {
	const tables, requests, leastOften = 150, 40, 20
	seed := routes.Seed()
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	w := routes.NewWorld(seed)
	k := newKernel(t)
	found := map[string]int{}
	for range tables {
		cfg := &model.Config{Listeners: []*model.Listener{{Name: "web", Address: address, Routes: w.Table()}}}
		for i := range 4 {
			cfg.Clusters = append(cfg.Clusters, &model.Cluster{Name: fmt.Sprintf("c%d", i)})
		}
		inKernel, compiled := k.serve(t, cfg), explain.Compiled(cfg)
		for range requests {
			r := w.Request()
			found[compare(t, cfg.Listeners[0].Routes, r, inKernel, compiled)]++
		}
	}
	t.Logf("verdicts: %v", found)
	for _, v := range []maps.Verdict{maps.VerdictOk, maps.HandoverNoRoute, maps.HandoverNoVHost, maps.HandoverRouteSlow, maps.HandoverNormalize} {
		if found[maps.VerdictName(v)] < leastOften {
			t.Errorf("%s occurred %d times, want at least %d", maps.VerdictName(v), found[maps.VerdictName(v)], leastOften)
		}
	}
}

// compare explains one request in three ways, and returns the kernel's verdict.
func compare(t *testing.T, rt *model.RouteTable, r *matcher.Request, inKernel, compiled *explain.State) string {
	t.Helper()
	q := queryOf(r)
	got, err := explain.Explain(inKernel, q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	if got.Disagreement != "" {
		t.Fatalf("%+v: %s\n%+v", q, got.Disagreement, got)
	}
	if want := positionOf(rt, asSent(r)); got.Winner != want && !got.IsAnswered() {
		t.Fatalf("%+v: route %d wins, want %d", q, got.Winner, want)
	}
	want, err := explain.Explain(compiled, q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	if want.Disagreement != "" {
		t.Fatalf("%+v: %s", q, want.Disagreement)
	}
	verdict := got.Kernel.Verdict
	// The slow path refuses it, whatever the tables say: the compiled ones say nothing then.
	if want.Action != nil && want.Action.Kind == explain.Refused {
		if got.Action == nil || got.Action.Kind != want.Action.Kind || got.Action.Status != want.Action.Status {
			t.Fatalf("%+v: with the kernel %+v, without %+v", q, got.Action, want.Action)
		}
		return verdict
	}
	// The kernel sees these in the head before it looks for a route.
	ofTheHead := []maps.Verdict{maps.HandoverMalformed, maps.HandoverRepeatedField, maps.HandoverTooManyFields, maps.HandoverHost}
	isIt := func(v maps.Verdict) bool { return maps.VerdictName(v) == verdict }
	if !slices.ContainsFunc(ofTheHead, isIt) && (verdict != want.Kernel.Verdict || got.Kernel.Timeout != want.Kernel.Timeout) {
		t.Fatalf("%+v: the kernel says %+v, the compiled table %+v\n%s", q, got.Kernel, want.Kernel, routes.Describe(rt, r))
	}
	return verdict
}

// positionOf is the position of the route that the model matches, from 1; 0 for none.
func positionOf(rt *model.RouteTable, r *matcher.Request) int {
	applied := *r
	applied.Authority = rt.Host.Apply(r.Authority)
	applied.Path, _ = rt.Path.Apply(r.Path)
	route := rt.Match(&applied)
	if route == nil {
		return 0
	}
	return slices.Index(rt.VirtualHost(applied.Authority).Routes, route) + 1
}

// A draw of 0 is a draw: the kernel takes no other instead, which could choose another route than the account tells of.
func TestDrawOfNothingDecides(t *testing.T) {
	rare := &model.Route{
		Path: matcher.PathMatch{Value: "/"}, Fraction: matcher.Fraction{Numerator: 1, Denominator: 100},
		Clusters: []model.WeightedCluster{{Name: "rare", Weight: 1}},
	}
	rest := &model.Route{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "rest", Weight: 1}}}
	table := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: []*model.Route{rare, rest}}}}
	state := newKernel(t).serve(t, &model.Config{
		Listeners: []*model.Listener{{Name: "web", Address: address, Routes: table}},
		Clusters:  []*model.Cluster{{Name: "rare"}, {Name: "rest"}},
	})
	for range 20 {
		got, err := explain.Explain(state, &explain.Query{Method: "GET", URL: "http://a/"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Winner != 1 || got.Kernel.Cluster != "rare" || got.Disagreement != "" {
			t.Fatalf("route %d wins, the kernel draws %q: %s", got.Winner, got.Kernel.Cluster, got.Disagreement)
		}
	}
}
