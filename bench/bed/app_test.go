// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/examples/app"
)

func TestEveryInstanceHasASidecar(t *testing.T) {
	for _, name := range cases.Apps {
		a, err := app.Load(filepath.Join("..", "..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		b := &Bed{app: &a, site: peers.Site{Dir: t.TempDir()}}
		server, client, m, err := b.appMesh()
		if err != nil {
			t.Fatal(err)
		}
		var taken []netip.AddrPort
		for _, r := range m.Inbound {
			taken = append(taken, r.From)
		}
		for _, endpoint := range a.Endpoints() {
			if !slices.Contains(taken, endpoint) {
				t.Errorf("%s: what comes for %s is not redirected", name, endpoint)
			}
			if before := configured(t, server); !strings.Contains(before, addressText(endpoint)) {
				t.Errorf("%s: the servers' sidecar does not know %s", name, endpoint)
			}
		}
		if n := len(m.Outbound); n == 0 || n != strings.Count(configured(t, client), `"bind_to_port":false`) {
			t.Errorf("%s: %d services are redirected, want as many as there are listeners:\n%s", name, n, configured(t, client))
		}
		if text := configured(t, client); strings.Count(text, `"int_value":1337`) != len(m.Outbound) || !strings.Contains(text, `"retry_policy"`) {
			t.Errorf("%s: not all clusters mark their connections, or routes are not the application's:\n%s", name, text)
		}
	}
}

// configured is a configuration as JSON.
func configured(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func addressText(a netip.AddrPort) string {
	return fmt.Sprintf(`{"address":"%s","port_value":%d}`, a.Addr(), a.Port())
}
