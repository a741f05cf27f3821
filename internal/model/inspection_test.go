// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
)

func tcpTo(name string) *TCPProxy {
	return &TCPProxy{Clusters: []WeightedCluster{{Name: name, Weight: 1}}}
}

func TestChainsAreChosenInEnvoysOrder(t *testing.T) {
	i := &Inspection{TLS: true, HTTP: true, Otherwise: &Chain{TCP: tcpTo("otherwise")}, Chains: []Chain{
		{Transport: TransportRaw, Protocols: []string{ProtocolHTTP11, ProtocolHTTP2}},
		{Transport: TransportTLS, ServerNames: []string{"a.test"}, TCP: tcpTo("name")},
		{Transport: TransportTLS, ServerNames: []string{".a.test", ".test"}, TCP: tcpTo("suffix")},
		{ServerNames: []string{"b.test"}, Protocols: []string{"h2"}, TCP: tcpTo("protocol")},
		{Transport: TransportTLS, Protocols: []string{"http/1.1"}, TCP: tcpTo("no name")},
	}}
	for _, c := range []struct {
		name string
		o    Opening
		want string
	}{
		{"HTTP", Opening{Protocols: []string{ProtocolHTTP11}}, "routes"},
		{"HTTP/2 has no routes", Opening{Protocols: []string{ProtocolHTTP2}}, "otherwise"},
		{"HTTP/1.0", Opening{Protocols: []string{ProtocolHTTP10}}, "otherwise"},
		{"text", Opening{}, "otherwise"},
		{"a name", Opening{TLS: true, ServerName: "a.test"}, "name"},
		{"the longest suffix", Opening{TLS: true, ServerName: "x.y.a.test"}, "suffix"},
		{"a shorter one", Opening{TLS: true, ServerName: "c.test"}, "suffix"},
		{"a protocol", Opening{TLS: true, ServerName: "b.test", Protocols: []string{"x", "h2"}}, "protocol"},
		{"a name is not taken back", Opening{TLS: true, ServerName: "b.test", Protocols: []string{"http/1.1"}}, "otherwise"},
		{"no name", Opening{TLS: true, Protocols: []string{"http/1.1"}}, "no name"},
		{"a name that nobody has", Opening{TLS: true, ServerName: "test", Protocols: []string{"http/1.1"}}, "no name"},
	} {
		p, http := i.Serves(&c.o)
		got := "routes"
		if !http {
			got = p.Clusters[0].Name
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestListenersAreFoundByAddressThenPortThenAnyhow(t *testing.T) {
	many := func(name, prefix string, port uint16) *Listener {
		p := netip.MustParsePrefix(prefix)
		return &Listener{Name: name, Many: p, Address: netip.AddrPortFrom(p.Addr(), port)}
	}
	c := &Config{Listeners: []*Listener{
		many("any", "0.0.0.0/0", 0), many("range of any", "127.82.0.0/16", 0), many("port", "0.0.0.0/0", 80), many("range", "127.81.0.0/16", 80),
		{Name: "address", Address: netip.MustParseAddrPort("127.81.0.1:80")}, many("six", "::/0", 80),
	}}
	for to, want := range map[string]string{
		"127.81.0.1:80": "address", "[::ffff:127.81.0.1]:80": "address", "127.81.0.2:80": "range", "127.82.0.2:80": "port",
		"127.82.0.2:81": "range of any", "127.81.0.1:81": "any", "[::1]:80": "six", "[::1]:81": "",
	} {
		got := ""
		if l := c.ListenerOf(View{}, netip.MustParseAddrPort(to)); l != nil {
			got = l.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

func TestSuffixIsLoweredInASCIIOnly(t *testing.T) {
	const word = "kiosk-cache"
	for _, c := range asciitest.Of(word) {
		if got := SuffixOf("*." + c.Text); got == "."+word {
			t.Errorf("%s: the suffix of %q is %q", c.Name, c.Text, got)
		}
	}
}
