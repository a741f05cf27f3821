// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/tools"
)

var someEndpoints = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9001"), netip.MustParseAddrPort("127.0.0.1:9002")}

func TestUnrelatedServicesShareClusters(t *testing.T) {
	services, clusters := UnrelatedServices(0)
	if len(services) != 0 || len(clusters) != 0 {
		t.Errorf("%d services and %d clusters, want none", len(services), len(clusters))
	}
	services, clusters = UnrelatedServices(clustersMost + 1)
	if len(services) != clustersMost+1 || len(clusters) != clustersMost {
		t.Errorf("%d services and %d clusters", len(services), len(clusters))
	}
	if last := services[clustersMost]; last.Cluster != clusters[0].Name || last.Name == services[0].Name {
		t.Errorf("the last service is %+v", last)
	}
}

func TestUnrelatedServicesAreInTheConfiguration(t *testing.T) {
	s := Site{Dir: t.TempDir(), Endpoints: someEndpoints}
	s.Unrelated, s.Clusters = UnrelatedServices(2)
	p := Process{Name: "xlb", Template: "envoy.yaml.tmpl", settings: service}
	text, err := p.Configuration(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"name: service-000001.example, domains: [service-000001.example]", "name: unrelated1, type: STATIC", "127.90.0.2"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("the configuration lacks %q:\n%s", part, text)
		}
	}
}

func TestPacketFilterHasARuleOrAnElementForEachService(t *testing.T) {
	for name, text := range map[string]string{Nft: FilterRules(someEndpoints, 3), NftMap: FilterMap(someEndpoints, 3), "none": FilterMap(someEndpoints, 0)} {
		n := strings.Count(text, "127.90.0.")
		if want := map[string]int{Nft: 3, NftMap: 3}[name]; n != want {
			t.Errorf("%s has %d unrelated services, want %d:\n%s", name, n, want, text)
		}
		if !strings.Contains(text, "ip daddr 127.80.0.1 tcp dport 8080 dnat ip addr . port to numgen random mod 2 map { 0 : 127.0.0.1 . 9001, 1 : 127.0.0.1 . 9002 }") {
			t.Errorf("%s does not choose among the endpoints:\n%s", name, text)
		}
		accepted(t, text)
	}
}

// accepted asks nft, if it is here and may, whether it understands the rules.
func accepted(t *testing.T, text string) {
	t.Helper()
	path, err := tools.Tools{}.Find("nft")
	if err != nil {
		t.Log(err)
		return
	}
	check := exec.Command("unshare", "--net", path, "--check", "-f", "-")
	check.Stdin = strings.NewReader(text)
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("nft: %v: %s\n%s", err, output, text)
	}
}
