// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
)

func TestRulesSendToSidecarsWhatIsNotTheirOwn(t *testing.T) {
	s := Site{Endpoints: EndpointAddresses(netip.MustParseAddr("198.18.80.2"), cases.Workers)}
	there := s.mesh().Redirections(false)
	s.Endpoints = EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Workers)
	here := s.mesh().Redirections(true)
	for _, tt := range []struct {
		name  string
		of    []Redirection
		parts []string
	}{
		{"two hosts", there, []string{
			"hook output", "ip daddr 127.80.0.1 tcp dport 8080 meta mark != 1337 counter dnat to 127.0.0.1:15001",
			"hook prerouting", "ip daddr 198.18.80.2 tcp dport 9002 meta mark != 1338 counter dnat to 198.18.80.2:15006",
		}},
		{"one host", here, []string{"hook output", "counter dnat to 127.0.0.1:15001", "ip daddr 127.0.0.1 tcp dport 9001 meta mark != 1338 counter dnat to 127.0.0.1:15006"}},
		{"chain", Peer{}.Meshed(2).Redirects(s).Redirections(true), []string{
			"ip daddr 127.80.0.1 tcp dport 8080 meta mark != 1337 counter dnat to 127.0.0.1:15001",
			"ip daddr 127.80.0.2 tcp dport 8080 meta mark != 1337 counter dnat to 127.82.0.1:15001",
			"ip daddr 127.81.0.2 tcp dport 9000 meta mark != 1338 counter dnat to 127.82.0.2:15006",
		}},
	} {
		text := ""
		for _, r := range tt.of {
			accepted(t, r.Text())
			text += r.Text()
		}
		for _, part := range tt.parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing in:\n%s", tt.name, part, text)
			}
		}
	}
}

func TestOnlySidecarsAreRedirectedTo(t *testing.T) {
	s := Site{Endpoints: EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Workers)}
	for _, p := range All() {
		for _, process := range p.Processes {
			text, err := process.Configuration(s)
			if err != nil {
				t.Fatal(err)
			}
			redirected := strings.Contains(string(text), "bind_to_port: false") && strings.Contains(string(text), "name: 36, int_value: 133") && strings.Contains(string(text), "use_original_dst")
			if redirected != (p.Name == Envoy2) {
				t.Errorf("%s, %s: redirected to: %t", p.Name, process.Name, redirected)
			}
		}
	}
}
