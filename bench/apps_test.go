// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/examples/app"
)

func TestApplicationsAreMeasuredByNameOnOneHost(t *testing.T) {
	for _, name := range appCases {
		o := validOptions()
		o.Case, o.AppUsers = name, []int{2, 8}
		if err := o.validate(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]load{appUsers(name, 2), appUsers(name, 8)}, o.loads()); diff != "" {
			t.Errorf("case %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]lab.Topology{lab.SameHost}, o.topologies()); diff != "" {
			t.Errorf("topologies (-want +got):\n%s", diff)
		}
		o.Topology = string(lab.CrossHost)
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--topology") {
			t.Errorf("case %s on two hosts: %v", name, err)
		}
	}
	o := validOptions()
	o.AppUsers = []int{1}
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--app-users") {
		t.Errorf("one user: %v", err)
	}
}

func TestEveryInstanceHasASidecar(t *testing.T) {
	for _, name := range appCases {
		a, err := app.Load(filepath.Join("..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		b := &bed{app: &a, site: site{dir: t.TempDir()}}
		server, client, m, err := b.appMesh()
		if err != nil {
			t.Fatal(err)
		}
		var taken []netip.AddrPort
		for _, r := range m.inbound {
			taken = append(taken, r.from)
		}
		for _, endpoint := range a.Endpoints() {
			if !slices.Contains(taken, endpoint) {
				t.Errorf("%s: what comes for %s is not redirected", name, endpoint)
			}
			if before := configured(t, server); !strings.Contains(before, addressText(endpoint)) {
				t.Errorf("%s: the servers' sidecar does not know %s", name, endpoint)
			}
		}
		if n := len(m.outbound); n == 0 || n != strings.Count(configured(t, client), `"bind_to_port":false`) {
			t.Errorf("%s: %d services are redirected, want as many as there are listeners:\n%s", name, n, configured(t, client))
		}
		if text := configured(t, client); strings.Count(text, `"int_value":1337`) != len(m.outbound) || !strings.Contains(text, `"retry_policy"`) {
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
