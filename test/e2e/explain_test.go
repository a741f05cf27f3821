// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/routes"
	"github.com/xlb-project/xlb/test/suite"
)

// explained asks the daemon.
func explained(t *testing.T, b *harness.Balancer, q explain.Query) *explain.Answer {
	t.Helper()
	var a explain.Answer
	if err := json.Unmarshal([]byte(b.Get(t, explain.Path+"?"+q.Values().Encode())), &a); err != nil {
		t.Fatal(err)
	}
	if a.Disagreement != "" {
		t.Errorf("%+v: %s", q, a.Disagreement)
	}
	return &a
}

func TestExplainSaysWhatTheKernelWouldDo(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "the verb is XLB's")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "web", "new")
		config := harness.Config{
			Listeners: []harness.Listener{{Address: service, Hosts: []harness.VirtualHost{{Domains: []string{"shop.test"}, Routes: []harness.Route{
				{Prefix: "/buy", Headers: map[string]string{"x-canary": "yes"}, Clusters: harness.To("new"), Timeout: 3 * time.Second},
				{Prefix: "/buy", Clusters: []harness.Share{{Cluster: "web", Weight: 1}, {Cluster: "new", Weight: 1}}},
				{Prefix: "/old/", Rewrite: "/new/", Clusters: harness.To("new")},
			}}}}},
			Clusters: []harness.Cluster{{Name: "web", Endpoints: addresses[:1]}, {Name: "new", Endpoints: addresses[1:]}},
		}
		b := harness.Start(t, mode, config, place)
		ask := func(method, path string, headers ...string) *explain.Answer {
			t.Helper()
			return explained(t, b, explain.Query{Method: method, URL: "http://" + service.String() + path, Headers: append(headers, "host: shop.test")})
		}

		canary := ask("GET", "/buy", "x-canary: yes")
		requireWinner(t, canary, 1, "new")
		if e := canary.Endpoints; len(e) != 1 || e[0].Address != addresses[1].String() || e[0].State != explain.Healthy || (e[0].Idle != nil) != mode.Fast {
			t.Errorf("endpoints: %+v", e)
		}
		requireKernel(t, mode, canary, "ok")
		if mode.Fast && (canary.Kernel.Cluster != "new" || canary.Kernel.Timeout != "3s") {
			t.Errorf("kernel: %+v", canary.Kernel)
		}

		plain := ask("GET", "/buy")
		requireWinner(t, plain, 2, "web", "new")
		requireKernel(t, mode, plain, "ok")
		requireKernel(t, mode, ask("PURGE", "/buy"), "method")
		requireKernel(t, mode, ask("GET", "/buy", "connection: close"), "connection_option")
		rewritten := ask("GET", "/old/x?q")
		requireWinner(t, rewritten, 3, "new")
		requireKernel(t, mode, rewritten, "ok")
		if got := rewritten.Action.Path; got != "/new/x?q" {
			t.Errorf("the endpoint gets %q", got)
		}
		none := ask("GET", "/")
		requireWinner(t, none, 0)
		requireKernel(t, mode, none, "no_route")

		config.Listeners[0].Hosts[0].Routes[0].Timeout = 4 * time.Second
		b.Reload(t, config)
		harness.Eventually(t, patience, "the new timeout is explained", func() bool {
			return ask("GET", "/buy", "x-canary: yes").Action.Timeout == "4s"
		})
		if reloaded := ask("GET", "/buy", "x-canary: yes"); mode.Fast && reloaded.Kernel.Timeout != "4s" {
			t.Errorf("kernel: %+v, want the table in force", reloaded.Kernel)
		}
		if fast, slow := b.Served(t); fast+slow != 0 {
			t.Errorf("%.0f requests were counted as fast, %.0f as slow", fast, slow)
		}
	})
}

func requireWinner(t *testing.T, a *explain.Answer, winner int, clusters ...string) {
	t.Helper()
	var names []string
	if a.Action != nil {
		for _, c := range a.Action.Clusters {
			names = append(names, c.Name)
		}
	}
	if a.Winner != winner || strings.Join(names, " ") != strings.Join(clusters, " ") {
		t.Errorf("route %d wins, to %q; want %d, to %q", a.Winner, names, winner, clusters)
	}
}

// requireKernel demands a verdict of the kernel, and none where the fast path is off.
func requireKernel(t *testing.T, mode harness.Mode, a *explain.Answer, verdict string) {
	t.Helper()
	want := explain.Kernel{By: explain.ByNobody}
	if mode.Fast {
		want = explain.Kernel{By: explain.ByKernel, Fast: verdict == "ok", Verdict: verdict}
	}
	if k := a.Kernel; k.By != want.By || k.Fast != want.Fast || k.Verdict != want.Verdict {
		t.Errorf("%s %s: kernel: %+v, want %+v", a.Request.Method, a.Request.Path, k, want)
	}
}

func TestExplainPrintsAndExitsAsDocumented(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "the verb is XLB's")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "server")
		config := harness.OneCluster(service, addresses...)
		config.Listeners[0].Hosts[0].Routes[0].Prefix = "/a"
		b := harness.Start(t, mode, config, place)
		fast := "\nfast path     yes: to origins, timeout 0s\n"
		if !mode.Fast {
			fast = "\nfast path     no: the daemon runs with --fast-path=off, or"
		}
		tests := []struct {
			url    string
			code   int
			stdout []string
			stderr string
		}{
			{"http://" + service.String() + "/a", 0, []string{"\nroute         1, prefix /a\n", fast, addresses[0].String() + "  1       healthy"}, ""},
			{"http://name/a", 0, []string{fast}, ""},
			{"http://name/", 1, []string{"\nroute         none: 404\n"}, "the answer is 404"},
			{"http://127.80.255.254/", 2, nil, "no listener has the address 127.80.255.254:80"},
		}
		for _, tt := range tests {
			t.Run(tt.url, func(t *testing.T) {
				process := place.Run(t, harness.Binary(t), "explain", "GET", tt.url, "--admin", b.Admin.String())
				stdout, code := process.Printed(t, commandPatience)
				if code != tt.code || !strings.Contains(process.Stderr(), tt.stderr) {
					t.Errorf("code %d, stderr %q; want %d and %q", code, process.Stderr(), tt.code, tt.stderr)
				}
				for _, text := range tt.stdout {
					if !strings.Contains(stdout, text) {
						t.Errorf("%q is not in it:\n%s", text, stdout)
					}
				}
			})
		}
	})
}

// The kernel's decisions on tables of every kind of matcher, for requests that are aimed at their routes.
func TestExplainAgreesWithTheModelOnRandomRoutes(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	harness.OnlyXLB(t, "the verb is XLB's")
	const tables, perTable = 10, 50
	place := harness.SameHost(t)
	w := routes.NewWorld(12)
	_, addresses := origins(t, place, "server")
	config, all := randomTables(w, tables)
	for i := range config.Clusters {
		config.Clusters[i].Endpoints = addresses
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		b := harness.Start(t, mode, config, place)
		verdicts := map[string]int{}
		for i, table := range all {
			for asked := 0; asked < perTable; {
				r := w.Request(table)
				if !isPlain(r) || r.Scheme != "" || r.Host == "" {
					continue
				}
				asked++
				verdicts[requireExplained(t, b, config.Listeners[i].Address, table, r)]++
			}
		}
		t.Logf("verdicts: %v", verdicts)
		if mode.Fast && verdicts[maps.VerdictName(maps.VerdictOk)] == 0 {
			t.Error("the kernel would take no request: the test does not test what it says")
		}
	})
}

// requireExplained compares the account of a request with the model, and returns the kernel's verdict.
func requireExplained(t *testing.T, b *harness.Balancer, service netip.AddrPort, table *routes.Table, r *routes.Request) string {
	t.Helper()
	rt, err := table.Model()
	if err != nil {
		t.Fatal(err)
	}
	q := explain.Query{Method: r.Method, URL: "http://" + service.String() + r.Target, Headers: []string{"host: " + r.Host}}
	for _, h := range r.Headers {
		q.Headers = append(q.Headers, h[0]+": "+h[1])
	}
	a := explained(t, b, q)
	if path := r.Model(rt).Path; a.Request.Path != path {
		t.Fatalf("%+v: explained for %s, want %s", q, a.Request.Path, path)
	}
	won, want := "none", "none"
	if a.Action != nil {
		won = a.Action.Clusters[0].Name
	}
	if route := rt.Match(r.Model(rt)); route != nil {
		want = route.Clusters[0].Name
	}
	if won != want {
		t.Fatalf("%+v: won by %s, want %s", q, won, want)
	}
	return a.Kernel.Verdict
}
