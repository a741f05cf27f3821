// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPodsRedirectToTheirOwnSidecars(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		parts      []string
	}{
		{"clients", PodClientRules(), []string{"hook output", "meta mark != 1337", "ip daddr != 127.0.0.0/8", "redirect to :15001"}},
		{"server", PodServerRules(8080), []string{"hook prerouting", "tcp dport 8080 redirect to :15006"}},
	} {
		accepted(t, tt.text)
		accepted(t, tt.text+NoPodRules())
		for _, part := range tt.parts {
			if !strings.Contains(tt.text, part) {
				t.Errorf("%s: %q is missing in:\n%s", tt.name, part, tt.text)
			}
		}
	}
}

func TestSidecarsOfPodsKnowNoMoreThanTheyNeed(t *testing.T) {
	services := []Listener{
		{Name: "s0", Address: netip.MustParseAddrPort("198.19.0.1:80"), Endpoints: []netip.AddrPort{netip.MustParseAddrPort("198.18.100.2:8080")}},
		{Name: "s1", Address: netip.MustParseAddrPort("198.19.0.2:80"), Endpoints: []netip.AddrPort{netip.MustParseAddrPort("198.18.100.3:8080")}},
	}
	for _, tt := range []struct {
		name      string
		make      func() ([]byte, error)
		listeners int
		redirects bool
		parts     []string
	}{
		{"xlb", func() ([]byte, error) { return PodsXLB(services) }, 2, false, []string{"198.19.0.2", "198.18.100.3"}},
		{"clients", func() ([]byte, error) { return PodClientSidecar(services[1:]) }, 1, true, []string{"address: 127.0.0.1, port_value: 15001", "198.19.0.2", "198.18.100.3"}},
		{"server", func() ([]byte, error) { return PodServerSidecar(services[0].Endpoints[0]) }, 1, true, []string{"address: 198.18.100.2, port_value: 15006", "address: 127.0.0.1, port_value: 8080"}},
	} {
		text, err := tt.make()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "http_connection_manager.v3"); got != tt.listeners {
			t.Errorf("%s: %d services, want %d", tt.name, got, tt.listeners)
		}
		if got := strings.Contains(string(text), "use_original_dst"); got != tt.redirects {
			t.Errorf("%s: takes redirected connections: %t, want %t", tt.name, got, tt.redirects)
		}
		for _, part := range tt.parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: %q is missing in:\n%s", tt.name, part, text)
			}
		}
	}
	for i := range services {
		if services[i].Mark != 0 {
			t.Error("the caller's services have a mark now")
		}
	}
}
