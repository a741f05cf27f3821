// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
)

func TestWhoTakesPart(t *testing.T) {
	for load, want := range map[cases.Load]string{
		cases.LeastLoaded(cases.OfTwo, cases.LeastRate): "xlb nginx haproxy envoy envoy-sidecars",
		cases.KeptAlive(32):                             "direct spread xlb nginx haproxy envoy envoy2",
		cases.ThroughRoutes(8, cases.ByPath, 1000):      "direct xlb envoy",
	} {
		var names []string
		for _, p := range All() {
			if p.TakesPart(load) {
				names = append(names, p.Name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s take part, want %s", load, got, want)
		}
	}
}

func TestEveryCaseHasItsPeers(t *testing.T) {
	o := cases.Options{Case: cases.All}
	o.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	for _, l := range o.Loads() {
		if !l.IsScaled() {
			continue
		}
		for _, p := range All() {
			takesPart := p.TakesPart(l)
			if name := p.Name; !takesPart && (name == Direct && l.Case != cases.Changes || name == XLB || name == Envoy) {
				t.Errorf("%s: %s is left out", l, name)
			}
			if p.Name == Spread && takesPart == (l.Case == cases.Chain || l.Case == cases.Density || l.Case == cases.Interference || l.Case == cases.Rules || l.Case == cases.Changes) {
				t.Errorf("%s: %s takes part: %t", l, p.Name, takesPart)
			}
			if takesPart && p.IsFilter() && l.Case != cases.Rules {
				t.Errorf("%s: %s takes part", l, p.Name)
			}
			if takesPart && p.Name == Sidecars && l.Case != cases.Density && l.Case != cases.Interference {
				t.Errorf("%s: %s takes part", l, p.Name)
			}
		}
		if !l.RunsIn(lab.SameHost) {
			t.Errorf("%s does not run on one host", l)
		}
	}
	for _, p := range packetFilters() {
		if p.TakesPart(cases.KeptAlive(1)) || p.TakesPart(cases.LeastLoaded(cases.OfTwo, 1)) || p.TakesPart(cases.ThroughRoutes(1, cases.ByPath, 1)) {
			t.Errorf("%s takes part where requests are told apart", p.Name)
		}
	}
	if l := (cases.Load{Case: cases.Rules, Scaled: cases.Scaled{Rules: nftMost + 1}}); (Peer{Name: Nft}).TakesPart(l) || !(Peer{Name: NftMap}).TakesPart(l) {
		t.Error("rules one by one are not bounded, or maps are")
	}
}
