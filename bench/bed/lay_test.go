// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
	"github.com/xlb-project/xlb/bench/peers"
)

func TestScanIsAskedForWhereAllAreCompared(t *testing.T) {
	for _, choice := range cases.Choices {
		b := &Bed{site: peers.Site{Endpoints: peers.EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Stations)}}
		if err := b.lay(cases.LeastLoaded(choice, cases.LeastRate)); err != nil {
			t.Fatal(err)
		}
		text, err := peerOf(peers.Sidecars).Processes[0].Configuration(b.site)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "FULL_SCAN"); got != (choice == cases.OfAll) {
			t.Errorf("least of %s: FULL_SCAN in the configuration: %t\n%s", choice, got, text)
		}
	}
}

func TestRequestsAreSpreadOverTheTable(t *testing.T) {
	b := &Bed{site: peers.Site{Dir: t.TempDir()}}
	if err := b.lay(cases.ThroughRoutes(8, cases.OfAnyKind, 10_000)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.site.Dir, clients.AskedRoutes))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != clients.MaxAsked || !strings.Contains(lines[clients.MaxAsked/2], "05000") {
		t.Errorf("requests: got %d, in the middle %q, want %d and one of route 5000", len(lines), lines[len(lines)/2], clients.MaxAsked)
	}
	if err := b.lay(cases.KeptAlive(1)); err != nil || b.site.Routes != nil {
		t.Errorf("another load has %d routes left, %v", len(b.site.Routes), err)
	}
}
