// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		server, client, err := b.appSidecars()
		if err != nil {
			t.Fatal(err)
		}
		for _, endpoint := range a.Endpoints() {
			sidecar := netip.AddrPortFrom(endpoint.Addr(), appSidecarPort)
			for file, want := range map[string][]netip.AddrPort{server: {sidecar, endpoint}, client: {sidecar}} {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, address := range want {
					if !namesAddress(string(text), address) {
						t.Errorf("%s: %s does not mention %s", name, filepath.Base(file), address)
					}
				}
				if len(want) == 1 && namesAddress(string(text), endpoint) {
					t.Errorf("%s: %s sends to %s without its sidecar", name, filepath.Base(file), endpoint)
				}
			}
		}
	}
}

func namesAddress(text string, a netip.AddrPort) bool {
	return strings.Contains(text, fmt.Sprintf("{ address: %s, port_value: %d }", a.Addr(), a.Port()))
}
