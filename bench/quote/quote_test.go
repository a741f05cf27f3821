// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample has two rows of XLB and one of Envoy.
const sample = `{
	"started": "2026-11-23T06:36:03Z",
	"machine": {"kernel": "6.18.44-x", "cpu_model": "Some CPU", "cpus": 2, "versions": {"xlb": "xlb abc1234 (go1.26)"}, "sysctls": {"net.ipv4.tcp_congestion_control": "cubic"}},
	"options": {"rounds": 5, "duration_ns": 2000000000},
	"targets": [{"target": "a", "measured": 1.2, "met": true}, {"target": "b", "measured": 0.5, "met": false}, {"target": "c", "measured": null, "met": false}],
	"summary": [
		{"topology": "same", "case": "keepalive", "connections": 32, "peer": "xlb", "rate_to_envoy": {"median": 7.849, "min": 6, "max": 9}, "p99_us": {"median": 4074},
		 "scale": {"density": {"own": {"median": 30.04}, "kernel": {"median": 46.6}}, "p99.9_us": {"median": 5}}},
		{"topology": "same", "case": "keepalive", "connections": 8, "peer": "xlb", "rate_to_envoy": {"median": 2.5}},
		{"topology": "same", "case": "keepalive", "connections": 32, "peer": "envoy", "rate_to_envoy": {"median": 1}}
	]}`

// pagesOf has runs of the sample, by the version of XLB that each says.
func pagesOf(t *testing.T, age Age, runs map[string]string) *Pages {
	t.Helper()
	root := t.TempDir()
	for name, version := range runs {
		dir := filepath.Join(root, "bench", "results", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(sample, "abc1234", version, 1)
		if err := os.WriteFile(filepath.Join(dir, "results.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Pages{Root: root, Age: age}
}

func aged(commits int, known bool) Age {
	return func(string) (int, bool) { return commits, known }
}

func TestFiguresAreComparedAsThePageRoundsThem(t *testing.T) {
	pages := pagesOf(t, aged(0, true), map[string]string{"run": "abc1234"})
	const told = "<!--notice run-->23 November 2026 (abc1234)<!--end-->"
	for _, tt := range []struct{ name, text, fault string }{
		{"right", "7.8<!--figure run keepalive connections=32 rate_to_envoy-->", ""},
		{"right, without decimals", "8<!--figure run keepalive connections=32 rate_to_envoy-->", ""},
		{"rounded twice", "7.9<!--figure run keepalive connections=32 rate_to_envoy-->", "the run says 7.8"},
		{"another part of the spread", "9.0<!--figure run keepalive connections=32 rate_to_envoy.max-->", ""},
		{"another peer", "1.0<!--figure run keepalive connections=32 peer=envoy rate_to_envoy-->", ""},
		{"a sum", "77<!--figure run keepalive connections=32 scale.density.own+scale.density.kernel-->", ""},
		{"a key with a dot", "5<!--figure run keepalive connections=32 scale.p99.9_us-->", ""},
		{"thousands", "4,074<!--figure run keepalive connections=32 p99_us-->", ""},
		{"the least", "2.5<!--figure run keepalive lowest rate_to_envoy-->", ""},
		{"the most", "7.85<!--figure run keepalive highest rate_to_envoy-->", ""},
		{"targets", "1<!--figure run targets.missed--> of 2<!--figure run targets.measured-->, 1<!--figure run targets.met-->", ""},
		{"too many targets", "2<!--figure run targets.missed-->", "the run says 1"},
		{"several rows", "2.5<!--figure run keepalive rate_to_envoy-->", "2 rows fit"},
		{"no row", "2.5<!--figure run keepalive connections=9 rate_to_envoy-->", "0 rows fit"},
		{"no such value", "2.5<!--figure run keepalive connections=8 rate_to_nobody-->", `no "rate_to_nobody"`},
		{"no such run", "2.5<!--figure gone keepalive connections=8 rate_to_envoy-->", "run gone"},
		{"no number", "fast<!--figure run keepalive connections=8 rate_to_envoy-->", "no number stands before"},
		{"a space too many", "2.5 <!-- figure run keepalive connections=8 rate_to_envoy -->", "a marker that is none"},
		{"a block without an end", "<!--table rates run-->", "a marker that is none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireFault(t, pages.Check("page.md", tt.text+told), tt.fault)
		})
	}
}

// requireFault wants one that contains a text, or none if that is empty.
func requireFault(t *testing.T, faults []string, want string) {
	t.Helper()
	if want == "" && len(faults) > 0 || want != "" && !strings.Contains(strings.Join(faults, "\n"), want) {
		t.Errorf("faults: got %q, want %q", faults, want)
	}
}

// A page says of which code its figures are: old code, a tree with changes that no commit has, and an unknown one are called so.
func TestPagesSayOfWhichCodeFiguresAre(t *testing.T) {
	const figure = "2.5<!--figure run keepalive connections=8 rate_to_envoy-->"
	notice := func(text string) string { return figure + "<!--notice run-->23 November 2026 (" + text + "<!--end-->" }
	for _, tt := range []struct {
		name, version string
		age           Age
		text, fault   string
	}{
		{"says nothing", "abc1234", aged(0, true), figure, "says of which code it is"},
		{"of now", "abc1234", aged(olderBound, true), notice("abc1234)"), ""},
		{"of old code", "abc1234", aged(olderBound+1, true), notice("abc1234), older than this code"), ""},
		{"of old code, and silent", "abc1234", aged(olderBound+1, true), notice("abc1234)"), "older than this code"},
		{"of now, and called old", "abc1234", aged(0, true), notice("abc1234), older than this code"), "the runs say"},
		{"without a history", "abc1234", aged(0, false), notice("abc1234), older than this code"), ""},
		{"with changes", "abc1234-dirty", aged(0, true), notice("abc1234 with uncommitted changes)"), ""},
		{"with changes, and silent", "abc1234-dirty", aged(0, true), notice("abc1234)"), "with uncommitted changes"},
		{"of no commit", "dev", aged(0, false), notice("an unknown commit)"), ""},
		{"in the table of runs", "abc1234", aged(11, true), figure + "<!--table runs run-->\n\n| run | made | code | congestion control | rounds | kernel, processors |\n|---|---|---|---|---|---|\n" +
			"| [run](results/run/results.md) | 2026-11-23 | abc1234, older | CUBIC | 5 of 2 s | 6.18.44, 2 x Some CPU |\n\n<!--end-->", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages := pagesOf(t, tt.age, map[string]string{"run": tt.version})
			requireFault(t, pages.Check("page.md", tt.text), tt.fault)
		})
	}
}

func TestANewRunReplacesFigures(t *testing.T) {
	pages := pagesOf(t, aged(0, true), map[string]string{"run": "abc1234", "new-run": "def5678"})
	text := "1.1<!--figure old keepalive connections=8 rate_to_envoy-->, [all](results/old/results.md), of <!--notice old-->some day<!--end-->; older, old-age"
	got, err := pages.apply(replaceRun(text, "old", "new-run"))
	if err != nil {
		t.Fatal(err)
	}
	want := "2.5<!--figure new-run keepalive connections=8 rate_to_envoy-->, [all](results/new-run/results.md), of <!--notice new-run-->23 November 2026 (def5678)<!--end-->; older, old-age"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	requireFault(t, pages.Check("page.md", got), "")
}

func TestNumbersWithoutAMarkerAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		faults     int
	}{
		{"a marker", "2.5<!--figure run keepalive connections=8 rate_to_envoy--> times", 0},
		{"none", "2.5 times as fast", 1},
		{"one of two", "2.5<!--figure run keepalive connections=8 rate_to_envoy--> and 3.5 times", 1},
		{"a setting of the figure", "with 8 connections 2.5<!--figure run keepalive connections=8 rate_to_envoy--> times", 0},
		{"a size in KiB", "64 KiB, 2.5<!--figure run sizes size_bytes=65536 rate_to_envoy--> times", 0},
		{"a setting of another paragraph", "with 8 connections\n\n2.5<!--figure run keepalive connections=8 rate_to_envoy--> times", 1},
		{"a setting of another item", "- with 8 connections\n- 2.5<!--figure run keepalive connections=8 rate_to_envoy--> times", 1},
		{"given", "for 10 minutes<!--given 10-->", 0},
		{"given and not there", "for minutes<!--given 10-->", 1},
		{"in a table", "| a | 0.77 |\n|---|---|\n", 1},
		{"in a table made from a run", "<!--table rates run-->\n| a | 0.77 |\n<!--end-->", 0},
		{"names, links, code and headings", "## 2 things\n[p99](results/2026-11-23/results.md) of HTTP/1.1 by `make 7`", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Unquoted(tt.text); len(got) != tt.faults {
				t.Errorf("faults: got %q, want %d", got, tt.faults)
			}
		})
	}
}

func TestRatiosOfHEELSAreMediansOverTheRounds(t *testing.T) {
	turn := func(path string, round, goodput float64) map[string]any {
		return map[string]any{"balancer": "IPIP", "load": "RR", "path": path, "round": round, "goodput": goodput}
	}
	r := &Run{Turns: []map[string]any{
		turn("direct", 1, 10), turn("heels", 1, 20), turn("direct", 2, 10), turn("heels", 2, 10), turn("direct", 3, 30), turn("heels", 3, 3), turn("heels", 4, 900),
	}}
	got, found := r.ratioToDirect(map[string]string{"load": "RR"}, "IPIP", "heels", "goodput")
	if !found || got != 1 {
		t.Errorf("got %v, %t, want the median of 2, 1 and 0.1", got, found)
	}
	if _, found := r.ratioToDirect(map[string]string{"load": "RR"}, "Katran", "heels", "goodput"); found {
		t.Error("there are no turns of Katran")
	}
}
