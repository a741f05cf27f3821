// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/bench/lab"
)

// defaultScale is what the flags say by default.
func defaultScale() (o scaleOptions) {
	o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

func TestEveryLoadOfACaseHasItsOwnName(t *testing.T) {
	o := validOptions()
	o.Case = all
	names := map[string]bool{}
	for _, l := range o.scaleLoads() {
		if !l.isScaled() {
			t.Errorf("%s is no case of these", l.Case)
		}
		if names[l.String()] {
			t.Errorf("two loads are called %q", l)
		}
		names[l.String()] = true
	}
	for _, name := range scaleCases {
		o.Case = name
		loads := o.loads()
		if len(loads) == 0 || loads[0].Case != name {
			t.Errorf("case %s has the loads %v", name, loads)
		}
	}
}

func TestScaleOptionsNameEveryBadFlag(t *testing.T) {
	if err := defaultScale().validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	err := scaleOptions{Capacity: -1}.validate()
	if err == nil {
		t.Fatal("validate() accepts everything")
	}
	pflags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&scaleOptions{}).addFlags(pflags)
	pflags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(err.Error(), "--"+f.Name+" ") {
			t.Errorf("validate() does not mention --%s: %v", f.Name, err)
		}
	})
}

func TestStepsOfOneCaseAreComparedWithinRounds(t *testing.T) {
	sized := func(way string, size int) load {
		return load{Case: caseSizes, Connections: 8, Scaled: Scaled{Way: way, Size: size}}
	}
	groups := compared([]load{
		keepalive(1), keepalive(8), {Case: caseConnections, Connections: 1}, {Case: caseConnections, Connections: 2},
		sized(wayResponse, 0), sized(wayResponse, 10), sized(wayRequest, 0),
	})
	var sizes []int
	for _, group := range groups {
		sizes = append(sizes, len(group))
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2, 1}, sizes); diff != "" {
		t.Errorf("sizes of the groups (-want +got):\n%s", diff)
	}
}

func TestRatiosAreToThePeersOwnLeastStep(t *testing.T) {
	at := func(connections, round int, peer string, rate, p99 float64) measurement {
		return measurement{Topology: lab.SameHost, load: load{Case: caseConnections, Connections: connections}, Peer: peer, Round: round, Rate: rate, P99: p99}
	}
	rows := summarise([]measurement{
		at(4, 1, peerXLB, 400, 20), at(1, 1, peerXLB, 100, 10), at(1, 1, peerEnvoy, 50, 40), at(4, 1, peerEnvoy, 60, 80),
		at(4, 2, peerXLB, 800, 20), at(1, 2, peerXLB, 100, 10),
	})
	first := rows[0]
	if first.Scale.RateToLeast.Median != 6 || first.Scale.P99ToLeast.Max != 2 || first.Scale.P99ToEnvoy.Median != 0.25 {
		t.Errorf("rate to least %v, p99 to least %v, p99 to Envoy %v", first.Scale.RateToLeast, first.Scale.P99ToLeast, first.Scale.P99ToEnvoy)
	}
	r := report{Summary: rows}
	if n := len(r.tables()); n != 1 {
		t.Errorf("%d tables, want one of all steps", n)
	}
	var text bytes.Buffer
	if err := r.writeText(&text); err != nil || !strings.Contains(text.String(), "x envoy") {
		t.Errorf("text %q, %v", text.String(), err)
	}
}

func TestProgramsOfOneNameAreOne(t *testing.T) {
	before := map[ebpf.ProgramID]account{1: {"send", 10, 100, 7, 70}, 2: {"send", 0, 0, 9, 60}, 3: {"called", 5, 5, 300, 2000}}
	after := map[ebpf.ProgramID]account{
		1: {"send", 20, 100 + 20*time.Nanosecond, 7, 70}, 2: {"send", 10, 30 * time.Nanosecond, 9, 60}, 3: {"called", 5, 5, 300, 2000}, 4: {"verdict", 5, 100, 0, 0},
	}
	want := []programCost{
		{Name: "verdict", Runs: 0.5, NSPerRun: 20, NSPerRequest: 10},
		{Name: "send", Runs: 2, NSPerRun: 2.5, NSPerRequest: 5, Instructions: 9, Bytes: 70},
		{Name: "called", Instructions: 300, Bytes: 2000},
	}
	if diff := cmp.Diff(want, costsOf(before, after, 10)); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

func TestLinesHaveAPointForEachStep(t *testing.T) {
	var svg bytes.Buffer
	lines := []line{{peerXLB, []point{{0, 10}, {1024, 200}}}, {"other", []point{{1024, 3}}}}
	if err := plotLines(&svg, "title", "bytes", lines); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(svg.String(), "<circle"); n != 3 {
		t.Errorf("%d points, want 3", n)
	}
	if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
		t.Errorf("the plot has no place for something:\n%s", svg.String())
	}
}

func TestChainsLeadFromServiceToService(t *testing.T) {
	for _, p := range peers() {
		next := p.nextOf(3)
		if len(next) != 3 || next[2].IsValid() {
			t.Errorf("%s: services ask %v, want nobody behind the last", p.name, next)
		}
	}
	direct := peer{name: peerDirect}.nextOf(2)[0].String()
	single := peer{name: peerEnvoy}.nextOf(2)[0].String()
	mesh := peer{name: peerEnvoy2}.nextOf(2)[0].String()
	if diff := cmp.Diff([]string{"127.81.0.2:9000", "127.80.0.2:8080", "127.80.0.2:8080"}, []string{direct, single, mesh}); diff != "" {
		t.Errorf("whom the first service asks (-want +got):\n%s", diff)
	}
	if n := len(peer{name: peerEnvoy2}.meshed(3).processes); n != 4 {
		t.Errorf("%d sidecars, want one at the client and at each of three services", n)
	}
	out := meshSidecar(1, 3).settings(site{})
	want := []listener{
		{"inbound", netip.MustParseAddrPort("127.81.0.2:9000"), []netip.AddrPort{netip.MustParseAddrPort("127.81.0.2:9000")}, markInbound},
		{"outbound", netip.MustParseAddrPort("127.80.0.3:8080"), []netip.AddrPort{netip.MustParseAddrPort("127.81.0.3:9000")}, markOutbound},
	}
	if diff := cmp.Diff(want, out.Listeners, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("listeners of a sidecar (-want +got):\n%s", diff)
	}
}

func TestEveryCaseHasItsPeers(t *testing.T) {
	o := validOptions()
	o.Case = all
	for _, l := range o.scaleLoads() {
		for _, p := range peers() {
			takesPart := p.takesPart(l)
			if name := p.name; !takesPart && (name == peerDirect && l.Case != caseChanges || name == peerXLB || name == peerEnvoy) {
				t.Errorf("%s: %s is left out", l, name)
			}
			if p.name == peerSpread && takesPart == (l.Case == caseChain || l.Case == caseDensity || l.Case == caseInterference || l.Case == caseRules || l.Case == caseChanges) {
				t.Errorf("%s: %s takes part: %t", l, p.name, takesPart)
			}
			if takesPart && p.isFilter() && l.Case != caseRules {
				t.Errorf("%s: %s takes part", l, p.name)
			}
			if takesPart && p.name == peerSidecars && l.Case != caseDensity && l.Case != caseInterference {
				t.Errorf("%s: %s takes part", l, p.name)
			}
		}
		if !l.runsIn(lab.SameHost) {
			t.Errorf("%s does not run on one host", l)
		}
	}
	for _, p := range packetFilters() {
		if p.takesPart(keepalive(1)) || p.takesPart(leastLoaded(choiceOfTwo, 1)) || p.takesPart(throughRoutes(1, routesByPath, 1)) {
			t.Errorf("%s takes part where requests are told apart", p.name)
		}
	}
	if l := (load{Case: caseRules, Scaled: Scaled{Rules: nftMost + 1}}); (peer{name: peerNft}).takesPart(l) || !(peer{name: peerNftMap}).takesPart(l) {
		t.Error("rules one by one are not bounded, or maps are")
	}
}

func TestDensityIsSummedUp(t *testing.T) {
	at := func(round int, d density) measurement {
		return measurement{Topology: lab.SameHost, load: load{Case: caseDensity, Connections: 3, Scaled: Scaled{Services: 3}}, Peer: peerXLB, Round: round, Density: &d}
	}
	rows := summarise([]measurement{
		at(1, density{Reached: 3, ReadySeconds: 1, Balancer: lab.Memory{PSS: 10e6, Maps: 2e6}}),
		at(2, density{Reached: 3, ReadySeconds: 3, Balancer: lab.Memory{PSS: 20e6, Maps: 2e6}}),
	})
	d := rows[0].Scale.Density
	if d.PSS.Median != 15 || d.Ready.Max != 3 || d.Maps.Min != 2 {
		t.Errorf("PSS %v, ready %v, maps %v", d.PSS, d.Ready, d.Maps)
	}
	if cells, names := scaleCells(rows[0]), scaleHeader(rows[0]); len(cells) != len(names) {
		t.Errorf("%d cells below %d names", len(cells), len(names))
	}
}

func TestPriceIsTheDifferenceWithinARound(t *testing.T) {
	at := func(round int, peer string, cpu float64) measurement {
		m := measurement{Topology: lab.SameHost, load: load{Case: caseRate, Connections: 8, Scaled: Scaled{Share: 10}}, Peer: peer, Round: round}
		m.CPU = perRequest{Machine: cpu + 5, Clients: cpu}
		m.Programs = []programCost{{Name: "send", NSPerRun: cpu}}
		return m
	}
	rows := summarise([]measurement{at(1, peerDirect, 10), at(1, peerXLB, 12), at(2, peerDirect, 30), at(2, peerXLB, 36), at(3, peerXLB, 99)})
	s := rows[1].Scale
	if s.OverDirect.Min != 2 || s.OverDirect.Max != 6 || s.Kernel.Median != 5 || s.Programs[0].NSPerRun.Median != 36 {
		t.Errorf("over direct %v, beside %v, programs %v", s.OverDirect, s.Kernel, s.Programs)
	}
}
