// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/lab"
)

func TestEveryRouteHasARequestOfItsOwn(t *testing.T) {
	for _, kind := range routeKinds {
		routes := routesOf(kind, 400)
		matches, requests := map[string]bool{}, map[string]bool{}
		for _, r := range routes {
			matches[r.Match] = true
			requests[r.path+" "+r.header] = true
		}
		if len(matches) != 400 || len(requests) != 400 {
			t.Errorf("%s: %d different matches, %d different requests, want 400 of each", kind, len(matches), len(requests))
		}
	}
}

func TestRequestsAreSpreadOverTheTable(t *testing.T) {
	b := &bed{site: site{dir: t.TempDir()}}
	if err := b.lay(throughRoutes(8, routesOfAnyKind, 10_000)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.site.dir, askedRoutes))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != maxAsked || !strings.Contains(lines[maxAsked/2], "05000") {
		t.Errorf("requests: got %d, in the middle %q, want %d and one of route 5000", len(lines), lines[len(lines)/2], maxAsked)
	}
	if err := b.lay(keepalive(1)); err != nil || b.site.routes != nil {
		t.Errorf("another load has %d routes left, %v", len(b.site.routes), err)
	}
}

func TestRoutesAreComparedWithinARound(t *testing.T) {
	loads := []load{keepalive(1), keepalive(8), throughRoutes(8, "path", 1), throughRoutes(8, "path", 10), throughRoutes(8, "regex", 1), short(1)}
	want := [][]load{{loads[0]}, {loads[1]}, {loads[2], loads[3]}, {loads[4]}, {loads[5]}}
	if diff := cmp.Diff(want, compared(loads)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// asked makes a measurement of a table of routes.
func asked(peer string, routes, round int, p50, cpu float64) measurement {
	return measurement{
		Topology: lab.SameHost, load: throughRoutes(8, routesByPath, routes), Peer: peer, Round: round, Rate: 1, P50: p50, CPU: perRequest{Clients: cpu},
	}
}

func TestRatiosAreToTheSmallestTable(t *testing.T) {
	rows := summarise([]measurement{
		asked(peerXLB, 1, 1, 10, 5), asked(peerXLB, 100, 1, 11, 10), asked(peerEnvoy, 1, 1, 50, 20), asked(peerEnvoy, 100, 1, 100, 80),
		asked(peerXLB, 1, 2, 20, 5), asked(peerXLB, 100, 2, 22, 10), asked(peerEnvoy, 1, 2, 50, 20), asked(peerEnvoy, 100, 2, 100, 80),
	})
	for _, tt := range []struct {
		peer     string
		routes   int
		p50, cpu float64
	}{{peerXLB, 1, 1, 1}, {peerXLB, 100, 1.1, 2}, {peerEnvoy, 1, 1, 1}, {peerEnvoy, 100, 2, 4}} {
		for _, r := range rows {
			if r.Peer == tt.peer && r.Routes == tt.routes && (r.P50ToFewest.Median != tt.p50 || r.CPUToFewest.Median != tt.cpu) {
				t.Errorf("%s, %d routes: got %v and %v, want %v and %v", tt.peer, tt.routes, r.P50ToFewest.Median, r.CPUToFewest.Median, tt.p50, tt.cpu)
			}
		}
	}
	var plot bytes.Buffer
	if err := plotCurves(&plot, lab.SameHost, curvesOf(rows, lab.SameHost)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(plot.String(), "<polyline"); got != 2 {
		t.Errorf("curves: got %d, want 2", got)
	}
}
