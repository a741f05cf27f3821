// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// opening is how a client begins.
type opening struct {
	name  string
	bytes []byte
	// delay is between the connection and what it begins with.
	delay time.Duration
}

// hello is the first message of a TLS client.
func hello(t *testing.T, name string, protocols ...string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	//nolint:gosec // nobody is asked for a certificate
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, NextProtos: protocols, InsecureSkipVerify: true}).Handshake()
	}()
	b := make([]byte, 16<<10)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func openings(t *testing.T) []opening {
	return []opening{
		{name: "HTTP/1.1", bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 with a body", bytes: []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")},
		{name: "HTTP/1.1 with another method", bytes: []byte("PURGE / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 that is malformed", bytes: []byte("GET / HTTP/1.1\r\nHost x\r\n\r\n")},
		{name: "HTTP/1.1 in absolute form", bytes: []byte("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 of the whole server", bytes: []byte("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 by CONNECT", bytes: []byte("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n")},
		{name: "HTTP/1.1 in lines of Unix", bytes: []byte("GET / HTTP/1.1\nHost: x\n\n")},
		{name: "HTTP/1.1 behind an empty line", bytes: []byte("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 with two spaces", bytes: []byte("GET  / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 behind a space", bytes: []byte(" GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 with a word behind", bytes: []byte("GET / HTTP/1.1 x\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 in small letters", bytes: []byte("GET / http/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.1 by a method in small letters", bytes: []byte("get / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "HTTP/1.0", bytes: []byte("GET / HTTP/1.0\r\nHost: x\r\n\r\n")},
		{name: "HTTP/0.9", bytes: []byte("GET /\r\n")},
		{name: "HTTP/2.0 in a request line", bytes: []byte("GET / HTTP/2.0\r\nHost: x\r\n\r\n")},
		{name: "HTTP/2", bytes: []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{name: "almost HTTP/2", bytes: []byte("PRI * HTTP/2.0\r\n\r\nSO\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{name: "text", bytes: []byte("hello world\r\n")},
		{name: "text of three words", bytes: []byte("hello dear world\r\n")},
		{name: "Redis", bytes: []byte("*1\r\n$4\r\nPING\r\n")},
		{name: "bytes", bytes: []byte("\x00\x01\x02\x03\n\x05\x06\x07")},
		{name: "almost TLS", bytes: []byte("\x16\x03\x01\x00\x06hello\n and more\n")},
		{name: "TLS", bytes: hello(t, "a.example")},
		{name: "TLS with a protocol", bytes: hello(t, "a.example", "h2", "http/1.1")},
		{name: "TLS to a name below", bytes: hello(t, "www.A.example", "http/1.1")},
		{name: "TLS to another name", bytes: hello(t, "b.example", "h2")},
		{name: "TLS without a name", bytes: hello(t, "")},
	}
}

// chained is a listener with these filter chains.
func chained(service netip.AddrPort, inspectors []string, chains []any, otherwise any) harness.Listener {
	var filters []any
	for _, name := range inspectors {
		filters = append(filters, inspector(name))
	}
	fields := map[string]any{"listener_filters": filters, "listener_filters_timeout": "0s", "filter_chains": chains}
	if otherwise != nil {
		fields["default_filter_chain"] = otherwise
	}
	return harness.Listener{Address: service, Fields: fields}
}

// inspector is tls_inspector or http_inspector.
func inspector(name string) any {
	message := map[string]string{"tls_inspector": "TlsInspector", "http_inspector": "HttpInspector"}[name]
	return map[string]any{"name": name, "typed_config": map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.filters.listener." + name + ".v3." + message,
	}}
}

// toRoutes and connectingTo are filter chains.
func toRoutes(cluster string, match map[string]any) any {
	return chainOf(match, "envoy.filters.network.http_connection_manager", map[string]any{
		"@type":       "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "x",
		"route_config": map[string]any{"virtual_hosts": []any{map[string]any{"name": "x", "domains": []any{"*"}, "routes": []any{
			map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": cluster}},
		}}}},
		"http_filters": []any{map[string]any{"name": "envoy.filters.http.router", "typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
		}}},
	})
}

func connectingTo(cluster string, match map[string]any) any {
	return chainOf(match, "envoy.filters.network.tcp_proxy", map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "x", "cluster": cluster,
	})
}

func chainOf(match map[string]any, name string, content any) any {
	chain := map[string]any{"filters": []any{map[string]any{"name": name, "typed_config": content}}}
	if match != nil {
		chain["filter_chain_match"] = match
	}
	return chain
}

// chainSets are listeners that the first bytes decide about, and one that the address does.
func chainSets() map[string]func(service netip.AddrPort) harness.Listener {
	type m = map[string]any
	both := []string{"tls_inspector", "http_inspector"}
	raw := func(protocols ...string) m {
		return m{"transport_protocol": "raw_buffer", "application_protocols": protocols}
	}
	return map[string]func(service netip.AddrPort) harness.Listener{
		"sidecar": func(s netip.AddrPort) harness.Listener {
			return chained(s, both[1:], []any{toRoutes("http", raw("http/1.1", "h2c"))}, connectingTo("rest", nil))
		},
		"server names": func(s netip.AddrPort) harness.Listener {
			return chained(s, both, []any{
				toRoutes("http", raw("http/1.1")), connectingTo("one", m{"transport_protocol": "tls", "server_names": []any{"a.example"}}),
				connectingTo("two", m{"transport_protocol": "tls", "server_names": []any{"*.a.example"}}),
				connectingTo("three", m{"transport_protocol": "tls"}),
			}, nil)
		},
		"protocols of TLS": func(s netip.AddrPort) harness.Listener {
			return chained(s, both, []any{
				connectingTo("one", m{"application_protocols": []any{"http/1.1"}}), connectingTo("two", m{"transport_protocol": "tls", "application_protocols": []any{"h2"}}),
				connectingTo("three", m{"transport_protocol": "raw_buffer"}),
			}, connectingTo("rest", nil))
		},
		"versions": func(s netip.AddrPort) harness.Listener {
			return chained(s, both[1:], []any{
				connectingTo("one", raw("http/1.0")), connectingTo("two", raw("http/1.1")), connectingTo("three", raw("h2c")),
			}, connectingTo("rest", nil))
		},
		"no step back": func(s netip.AddrPort) harness.Listener {
			return chained(s, both, []any{
				connectingTo("one", m{"server_names": []any{"a.example"}, "application_protocols": []any{"x"}}), connectingTo("two", m{"transport_protocol": "tls"}),
				connectingTo("three", raw("http/1.0")),
			}, nil)
		},
		"TLS unasked": func(s netip.AddrPort) harness.Listener {
			return chained(s, nil, []any{connectingTo("one", m{"server_names": []any{"a.example"}}), toRoutes("http", nil)}, nil)
		},
		"nothing is looked at": func(s netip.AddrPort) harness.Listener {
			return chained(s, nil, []any{toRoutes("http", m{"transport_protocol": "raw_buffer"})}, connectingTo("rest", nil))
		},
		"destination": func(s netip.AddrPort) harness.Listener {
			return chained(s, nil, []any{
				connectingTo("one", m{"destination_port": 1}), connectingTo("two", m{"destination_port": s.Port(), "prefix_ranges": []any{m{"address_prefix": "127.0.0.0", "prefix_len": 8}}}),
				connectingTo("three", m{"destination_port": s.Port(), "prefix_ranges": []any{m{"address_prefix": s.Addr().String(), "prefix_len": 32}}}), toRoutes("http", nil),
			}, connectingTo("rest", nil))
		},
		"destination without a chain": func(s netip.AddrPort) harness.Listener {
			return chained(s, nil, []any{
				connectingTo("one", m{"destination_port": s.Port(), "prefix_ranges": []any{m{"address_prefix": "10.0.0.0", "prefix_len": 8}}}), toRoutes("http", nil),
			}, connectingTo("rest", nil))
		},
	}
}

// byRoutes is the outcome where routes serve a connection, whatever they answer: docs/http.md has that.
const byRoutes = "routes"

// servedBy says what served a connection.
func servedBy(sent []byte, a programs.RawAnswer) string {
	line, rest, _ := bytes.Cut(a.Bytes, []byte("\n"))
	switch {
	case a.Error != "":
		return a.Error
	case len(a.Bytes) == 0 && a.Closed:
		return "closed"
	case len(a.Bytes) == 0:
		// Of what is no request Envoy answers more than XLB, which waits for the end of a head; other servers here speak first.
		return byRoutes
	case bytes.HasPrefix(line, []byte("HTTP/1.")), bytes.HasPrefix(a.Bytes, []byte{0, 0}):
		return byRoutes
	case bytes.Equal(rest, sent):
		return string(line)
	}
	return fmt.Sprintf("%q", a.Bytes)
}

// decisions are the outcomes of all openings at all services, by "set/opening", where nothing has come for so long.
func decisions(t *testing.T, place *harness.Place, services map[string]netip.AddrPort, quiet time.Duration, all []opening) map[string]string {
	t.Helper()
	var sends []programs.RawSend
	var names []string
	for set, service := range services {
		for _, o := range all {
			sends = append(sends, programs.RawSend{Address: service.String(), Bytes: o.bytes, Delay: o.delay})
			names = append(names, set+"/"+o.name)
		}
	}
	out := map[string]string{}
	for i, a := range runRaw(t, place, quiet, sends...) {
		out[names[i]] = servedBy(sends[i].Bytes, a)
	}
	return out
}

// listenersOf makes a listener of each set, at a service of its own.
func listenersOf(sets map[string]func(netip.AddrPort) harness.Listener) (listeners []harness.Listener, services map[string]netip.AddrPort) {
	services = map[string]netip.AddrPort{}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		services[name] = harness.Service()
		listeners = append(listeners, sets[name](services[name]))
	}
	return listeners, services
}

// requireDecisions compares those of XLB with Envoy's, and with what differs on purpose.
func requireDecisions(t *testing.T, got, envoy, aside map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(envoy)) {
		want := cmp.Or(aside[name], envoy[name])
		t.Logf("%s: %s", name, got[name])
		if got[name] != want {
			t.Errorf("%s: %s, want %s; Envoy: %s", name, got[name], want, envoy[name])
		}
	}
}

// differingDecisions tells of openings that XLB decides in another way than Envoy, and not on purpose. Both are asked at the same time: what is late is
// taken for silence.
func differingDecisions(t *testing.T, place *harness.Place, envoy, xlb map[string]netip.AddrPort, all []opening) (difference string) {
	t.Helper()
	both := map[string]netip.AddrPort{}
	for name, service := range envoy {
		both["Envoy/"+name], both["XLB/"+name] = service, xlb[name]
	}
	seen := decisions(t, place, both, time.Second, all)
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		name, is := strings.CutPrefix(key, "XLB/")
		if !is {
			continue
		}
		got, theirs := seen[key], seen["Envoy/"+name]
		t.Logf("%s: %s", name, got)
		if want := cmp.Or(aside[name], theirs); got != want {
			difference += fmt.Sprintf("%s: %s, want %s; Envoy: %s\n", name, got, want, theirs)
		}
	}
	return difference
}

// aside is what differs from Envoy on purpose, by set and opening.
var aside = map[string]string{
	// There are no routes for HTTP/2.
	"sidecar/HTTP/2": "rest",
	// Envoy has taken the beginning for HTTP/2, and gives up.
	"TLS unasked/almost HTTP/2":          byRoutes,
	"nothing is looked at/almost HTTP/2": byRoutes,
}

func TestFirstBytesComeToEnvoysChain(t *testing.T) {
	harness.Beside(t)
	place := harness.SameHost(t)
	_, greeting := greeters(t, place, "one", "two", "three", "rest")
	origin := place.Origin(t, "http")
	all := openings(t)
	config := func() (c harness.Config, services map[string]netip.AddrPort) {
		c.Listeners, services = listenersOf(chainSets())
		c.Clusters = []harness.Cluster{{Name: "http", Endpoints: []netip.AddrPort{origin.Address}}}
		for i, name := range []string{"one", "two", "three", "rest"} {
			c.Clusters = append(c.Clusters, harness.Cluster{Name: name, Endpoints: greeting[i : i+1]})
		}
		return c, services
	}
	harness.OnlyXLB(t, "that is what is compared with")
	c, theirs := config()
	harness.StartEnvoy(t, c, place)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c, services := config()
		b := harness.Start(t, mode, c, place)
		await.OneOfThree(t, "first bytes", func() string { return differingDecisions(t, place, theirs, services, all) })
		if mode.Fast {
			if n := b.Metric(t, "xlb_verdicts_total", `verdict="request_leased"`); n == 0 {
				t.Error("no request was served in the kernel")
			}
		}
		if strings.Contains(b.Stderr(), "panic") {
			t.Error(b.Stderr())
		}
	})
}
