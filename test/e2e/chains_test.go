// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// opening is how a client begins.
type opening struct {
	name  string
	bytes []byte
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
		{"HTTP/1.1", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 with a body", []byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")},
		{"HTTP/1.1 with another method", []byte("PURGE / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 that is malformed", []byte("GET / HTTP/1.1\r\nHost x\r\n\r\n")},
		{"HTTP/1.1 in absolute form", []byte("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 of the whole server", []byte("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 by CONNECT", []byte("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n")},
		{"HTTP/1.1 in lines of Unix", []byte("GET / HTTP/1.1\nHost: x\n\n")},
		{"HTTP/1.1 behind an empty line", []byte("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 with two spaces", []byte("GET  / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 behind a space", []byte(" GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 with a word behind", []byte("GET / HTTP/1.1 x\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 in small letters", []byte("GET / http/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.1 by a method in small letters", []byte("get / HTTP/1.1\r\nHost: x\r\n\r\n")},
		{"HTTP/1.0", []byte("GET / HTTP/1.0\r\nHost: x\r\n\r\n")},
		{"HTTP/0.9", []byte("GET /\r\n")},
		{"HTTP/2.0 in a request line", []byte("GET / HTTP/2.0\r\nHost: x\r\n\r\n")},
		{"HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{"almost HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSO\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
		{"text", []byte("hello world\r\n")},
		{"text of three words", []byte("hello dear world\r\n")},
		{"Redis", []byte("*1\r\n$4\r\nPING\r\n")},
		{"bytes", []byte("\x00\x01\x02\x03\n\x05\x06\x07")},
		{"almost TLS", []byte("\x16\x03\x01\x00\x06hello\n and more\n")},
		{"TLS", hello(t, "a.example")},
		{"TLS with a protocol", hello(t, "a.example", "h2", "http/1.1")},
		{"TLS to a name below", hello(t, "www.A.example", "http/1.1")},
		{"TLS to another name", hello(t, "b.example", "h2")},
		{"TLS without a name", hello(t, "")},
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

// decisions are the outcomes of all openings.
func decisions(t *testing.T, place *harness.Place, service netip.AddrPort, all []opening) []string {
	t.Helper()
	return decisionsAfter(t, place, service, 0, time.Second, all)
}

// decisionsAfter are those of clients that wait before they send, and then so long for what comes.
func decisionsAfter(t *testing.T, place *harness.Place, service netip.AddrPort, delay, quiet time.Duration, all []opening) []string {
	t.Helper()
	spec := programs.RawSpec{Address: service.String(), Delay: delay, Quiet: quiet, Concurrency: 32}
	for _, o := range all {
		spec.Sends = append(spec.Sends, o.bytes)
	}
	var report programs.RawReport
	place.Program(t, programs.RawProgram, spec).Next(t, &report)
	var out []string
	for i, a := range report.Answers {
		out = append(out, servedBy(all[i].bytes, a))
	}
	return out
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
	place := harness.SameHost(t)
	_, greeting := greeters(t, place, "one", "two", "three", "rest")
	origin := place.Origin(t, "http")
	all, sets := openings(t), chainSets()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range sets {
			if !yield(name) {
				return
			}
		}
	})
	config := func() (c harness.Config, services []netip.AddrPort) {
		for _, name := range names {
			service := harness.Service()
			services, c.Listeners = append(services, service), append(c.Listeners, sets[name](service))
		}
		c.Clusters = []harness.Cluster{{Name: "http", Endpoints: []netip.AddrPort{origin.Address}}}
		for i, name := range []string{"one", "two", "three", "rest"} {
			c.Clusters = append(c.Clusters, harness.Cluster{Name: name, Endpoints: greeting[i : i+1]})
		}
		return c, services
	}
	c, services := config()
	harness.StartEnvoy(t, c, place)
	want := map[string][]string{}
	for i, name := range names {
		want[name] = decisions(t, place, services[i], all)
	}
	harness.OnlyXLB(t, "that is what is compared with")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c, services := config()
		b := harness.Start(t, mode, c, place)
		for i, name := range names {
			got := decisions(t, place, services[i], all)
			for j, o := range all {
				expected := want[name][j]
				if own, ok := aside[name+"/"+o.name]; ok {
					expected = own
				}
				t.Logf("%s: %s: %s", name, o.name, got[j])
				if got[j] != expected {
					t.Errorf("%s: %s: %s, and Envoy %s", name, o.name, got[j], expected)
				}
			}
		}
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
