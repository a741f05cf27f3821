// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/queue"
)

// stationed is a turn in which the slow station got so many of a hundred requests.
func stationed(peer string, round int, p99 float64, slow int64) measurement {
	m := measurement{Topology: lab.SameHost, load: leastLoaded(choiceOfTwo, leastRate), Peer: peer, Round: round, Rate: leastRate, P50: 1000, P99: p99, P999: 2 * p99}
	for range stations - 1 {
		m.Stations = append(m.Stations, queue.Account{Requests: (100 - slow) / (stations - 1), Mean: 0.5, Deviation: 0.25, Max: 3})
	}
	m.Stations = append(m.Stations, queue.Account{Requests: slow, Mean: 4, Deviation: 2, Max: 9})
	return m
}

func TestLeastTableShowsWhatIsUnderWay(t *testing.T) {
	measurements := []measurement{
		stationed(peerXLB, 1, 20_000, 10), stationed(peerEnvoy, 1, 25_000, 10), stationed(peerSidecars, 1, 80_000, 25),
		stationed(peerXLB, 2, 22_000, 10), stationed(peerEnvoy, 2, 22_000, 10), stationed(peerSidecars, 2, 44_000, 25),
	}
	r := report{Options: validOptions(), Summary: summarise(measurements)}
	r.Targets = judge(r.Summary, projectTargets)
	var text, markdown bytes.Buffer
	if err := r.writeText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), markdown.String()} {
		for _, want := range []string{"21000 (20000-22000)", "42000 (40000-44000)", "0.90", "0.38", "4.00 ± 2.00 (9)", "0.50 ± 0.25 (3)", "10.0", "25.0", "under way at the slow endpoint"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
	}
	met := 0
	for _, v := range r.Targets {
		if v.Met {
			met++
		}
	}
	if met != 2 {
		t.Errorf("%d targets met, want those of the one load: %v", met, r.Targets)
	}
}

func TestEachClientHasItsSidecar(t *testing.T) {
	p := sidecars()
	s := site{endpoints: endpointAddresses(netip.MustParseAddr("127.0.0.1"), stations)}
	seen := map[netip.AddrPort]bool{}
	for i, process := range p.processes {
		set := process.settings(s)
		if set.Listeners[0].Address != p.serves[i] {
			t.Errorf("sidecar %d listens on %s, its client asks %s", i, set.Listeners[0].Address, p.serves[i])
		}
		seen[set.Admin], seen[p.serves[i]] = true, true
	}
	if len(seen) != 2*leastClients || !slices.Contains(p.serves, serviceAddress) {
		t.Errorf("addresses %v, want two for each of %d clients and the service's", seen, leastClients)
	}
}

func TestScanIsAskedForWhereAllAreCompared(t *testing.T) {
	for _, choice := range choices {
		b := &bed{site: site{endpoints: endpointAddresses(netip.MustParseAddr("127.0.0.1"), stations)}}
		if err := b.lay(leastLoaded(choice, leastRate)); err != nil {
			t.Fatal(err)
		}
		text, err := sidecarProcess(0).configuration(b.site)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "FULL_SCAN"); got != (choice == choiceOfAll) {
			t.Errorf("least of %s: FULL_SCAN in the configuration: %t\n%s", choice, got, text)
		}
	}
}

func TestWhoTakesPart(t *testing.T) {
	for load, want := range map[load]string{
		leastLoaded(choiceOfTwo, leastRate):  "xlb nginx haproxy envoy envoy-sidecars",
		keepalive(32):                        "direct spread xlb nginx haproxy envoy envoy2",
		throughRoutes(8, routesByPath, 1000): "direct xlb envoy",
	} {
		var names []string
		for _, p := range peers() {
			if p.takesPart(load) {
				names = append(names, p.name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s take part, want %s", load, got, want)
		}
	}
}
