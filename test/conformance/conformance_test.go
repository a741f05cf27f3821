// SPDX-License-Identifier: Apache-2.0

// Package conformance plays one HTTP/1.1 case after the other through XLB, Envoy and nginx, byte by byte, and writes what came of
// each into docs/http.md. What XLB does is held by a rule for each case; what the others do is there to compare.
package conformance

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m))
}

// group is a part of the table.
type group struct {
	title string
	cases []exchange
	// forwarded tells that the table says what reached the endpoint.
	forwarded bool
}

func groups() []group {
	return []group{
		{"Requests with a length, or without a body", lengthCases(), true},
		{"Chunked requests", chunkedCases(), true},
		{"Expectations", expectCases(), true},
		{"Methods and forms of the target", methodCases(), true},
		{"Targets", targetCases(), true},
		{"Versions", versionCases(), true},
		{"Connection fields", connectionCases(), true},
		{"Sends and pipelining", sendCases(), true},
		{"Sizes", sizeCases(), true},
		{"Fields", fieldCases(), true},
		{"Ambiguous requests", ambiguityCases(), true},
		{"Informational responses", informationalCases(), false},
		{"Framing of responses", framedCases(), false},
		{"Responses without a body", bodilessCases(), false},
		{"Bytes nobody asked for", unaskedCases(), false},
		{"Responses before the end of the request", earlyCases(), false},
		{"Broken responses", brokenCases(), false},
		{"Upgrade", upgradeCases(), true},
	}
}

// observations by the number of the group and of the case.
type observations [][]observation

// playAll plays every case; judge is told what came of it.
func (s *stage) playAll(t *testing.T, judge func(g group, c exchange, o observation)) observations {
	t.Helper()
	var all observations
	for _, g := range groups() {
		var of []observation
		for _, c := range g.cases {
			o := s.play(t, c)
			judge(g, c, o)
			of = append(of, o)
		}
		all = append(all, of)
	}
	return all
}

func stageXLB(t *testing.T, mode harness.Mode, clients, servers *harness.Place) *stage {
	t.Helper()
	s := newStage(t, clients, servers)
	b := harness.Start(t, mode, s.config(), clients)
	s.verdicts = func() map[string]float64 { return b.Samples(t, "xlb_verdicts_total", "verdict") }
	return s
}

func newStage(t *testing.T, clients, servers *harness.Place) *stage {
	t.Helper()
	return &stage{service: harness.Service(), front: clients.Puppet(t), back: servers.Puppet(t), retired: map[int]bool{}}
}

// judge holds XLB to the rules.
type judge struct {
	// broken tells of the cases that are known to break their rules whether they did, in any way of running.
	broken map[string]bool
}

func (j *judge) in(t *testing.T, mode harness.Mode) func(group, exchange, observation) {
	return func(g group, c exchange, o observation) {
		wrong := c.check(o)
		if mode.Fast && c.fast && o.path != "fast" {
			wrong = append(wrong, "path: got "+o.path+", want fast")
		}
		name := g.title + ": " + c.name
		if c.pending != "" {
			j.broken[name] = j.broken[name] || len(wrong) > 0
			return
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
	}
}

// requireBroken fails for cases that follow their rules again, so that they lose their mark.
func (j *judge) requireBroken(t *testing.T) {
	t.Helper()
	for name, broken := range j.broken {
		if !broken {
			t.Errorf("%s: it follows its rule now: remove what it says is pending", name)
		}
	}
}

func TestHTTPIsHandledAsThePageSays(t *testing.T) {
	harness.OnlyXLB(t, "it has its own column")
	var r results
	// What they measure is not time: XLB and the others run side by side.
	t.Run("stages", func(t *testing.T) {
		t.Run("XLB", func(t *testing.T) {
			t.Parallel()
			runXLB(t, &r)
		})
		if testing.Short() || !harness.FastPath(t) {
			return
		}
		t.Run("Envoy", func(t *testing.T) {
			t.Parallel()
			place := harness.SameHost(t)
			s := newStage(t, place, place)
			b := harness.StartEnvoy(t, s.config(), place)
			r.envoy = peer{"Envoy " + envoyVersion(t, b), s.playAll(t, observe)}
		})
		t.Run("nginx", func(t *testing.T) {
			t.Parallel()
			place := harness.SameHost(t)
			s := newStage(t, place, place)
			place.NginxProxy(t, s.service, s.back.Address)
			all := s.playAll(t, observe)
			if len(all[0][0].answers) == 0 {
				t.Fatal("nginx has not answered the first case")
			}
			r.nginx = peer{strings.Replace(all[0][0].answers[0].header.Get("Server"), "/", " ", 1), all}
		})
	})
	switch {
	case t.Failed():
	case r.fast == nil || r.remote == nil || r.slow == nil:
		// It has passed: the rules hold. A skip would be taken for the outcome of a test that failed before and has not run again.
		t.Log("the page is not compared: that needs a kernel with the fast path (6.12 or later), and a run without -short")
	default:
		comparePage(t, &r)
	}
}

func envoyVersion(t *testing.T, b *harness.Balancer) string {
	t.Helper()
	var info struct{ Version string }
	if err := json.Unmarshal([]byte(b.Get(t, "/server_info")), &info); err != nil {
		t.Fatal(err)
	}
	// commit/version/…
	parts := strings.Split(info.Version, "/")
	if len(parts) < 2 {
		t.Fatalf("version of Envoy: %q", info.Version)
	}
	return parts[1]
}

func observe(group, exchange, observation) {}

// runXLB plays all cases in every way of running XLB.
func runXLB(t *testing.T, r *results) {
	j := &judge{broken: map[string]bool{}}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		// Where another process holds a socket at that moment, its bytes go over TCP, as they should. The page is about sockets that are free.
		mode.Waits = mode.Fast
		place := harness.SameHost(t)
		all := stageXLB(t, mode, place, place).playAll(t, j.in(t, mode))
		if mode.Fast {
			r.fast = all
		} else {
			r.slow = all
		}
	})
	if testing.Short() || !harness.FastPath(t) {
		return
	}
	t.Run("other host", func(t *testing.T) {
		clients, servers := harness.TwoHosts(t)
		mode := harness.Modes(t)[0]
		mode.Waits = mode.Fast
		r.remote = stageXLB(t, mode, clients, servers).playAll(t, j.in(t, mode))
	})
	j.requireBroken(t)
}

var update = flag.Bool("update", false, "rewrite docs/http.md")

const page = "../../docs/http.md"

// firstPeer is the column of the first that is not XLB.
const firstPeer = 5

// comparePage compares what was seen with the page, or writes the page. A column of somebody who is not here in the page's
// version is not compared.
func comparePage(t *testing.T, r *results) {
	t.Helper()
	got := r.render()
	if *update {
		if r.envoy.name == "" || r.nginx.name == "" {
			t.Fatal("-update needs Envoy and nginx: run scripts/install-deps test")
		}
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(b)
	column := firstPeer
	for _, p := range r.peers() {
		shorter, name := without(want, column)
		if name == p.name {
			column++
			continue
		}
		t.Logf("the column of %s is not compared: here it is %q", name, p.name)
		want = shorter
		got, _ = without(got, column)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("docs/http.md is out of date (-page +seen); if that is meant, run: go test ./test/conformance -update\n%s", diff)
	}
}
