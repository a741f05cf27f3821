// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// sidecar is what a mesh has for a workload: listeners by port for all addresses, some for one address, and one for the rest, which leads to the
// cluster named. The endpoints are those of the clusters http, one, two and three.
func sidecar(rest string, http netip.AddrPort, greeting []netip.AddrPort) harness.Config {
	type m = map[string]any
	at := func(name, address string, more m) harness.Listener {
		to := netip.MustParseAddrPort(address)
		fields := m{"name": name, "traffic_direction": "OUTBOUND", "bind_to_port": false}
		maps.Copy(fields, more)
		return harness.Listener{Address: to, Fields: fields}
	}
	routes := toRoutes("pass", m{"transport_protocol": "raw_buffer", "application_protocols": []any{"http/1.1", "h2c"}}).(m)
	config := routes["filters"].([]any)[0].(m)["typed_config"].(m)["route_config"].(m)
	config["virtual_hosts"] = append(config["virtual_hosts"].([]any), m{"name": "shop", "domains": []any{"shop.test", "shop.test:9080"}, "routes": []any{
		m{"match": m{"prefix": "/"}, "route": m{"cluster": "http"}},
	}})
	c := harness.Config{
		Listeners: []harness.Listener{
			at("virtualOutbound", "0.0.0.0:15001", m{"use_original_dst": true, "bind_to_port": true, "filter_chains": []any{
				connectingTo("black", m{"destination_port": 15001}), connectingTo(rest, nil),
			}}),
			at("virtualInbound", "0.0.0.0:15006", m{"traffic_direction": "INBOUND", "bind_to_port": true, "filter_chains": []any{connectingTo("black", nil)}}),
			at("0.0.0.0_9080", "0.0.0.0:9080", m{
				"filter_chains": []any{routes}, "default_filter_chain": connectingTo("pass", nil), "listener_filters_timeout": "0s",
				"continue_on_listener_filters_timeout": true, "listener_filters": []any{inspector("http_inspector")},
			}),
			at("0.0.0.0_9090", "0.0.0.0:9090", m{"filter_chains": []any{
				connectingTo("two", m{"prefix_ranges": []any{m{"address_prefix": "127.82.0.0", "prefix_len": 16}}}),
				connectingTo("one", m{"prefix_ranges": []any{m{"address_prefix": "127.82.3.0", "prefix_len": 24}}}), connectingTo("three", nil),
			}}),
			at("127.81.0.4_3306", "127.81.0.4:3306", m{"filter_chains": []any{connectingTo("one", nil)}}),
			at("127.81.0.4_9080", "127.81.0.4:9080", m{"filter_chains": []any{connectingTo("two", nil)}}),
		},
		Clusters: []harness.Cluster{
			{Name: "pass", Policy: "CLUSTER_PROVIDED", Fields: original(nil)}, {Name: "black"},
			{Name: "http", Endpoints: []netip.AddrPort{http}},
		},
	}
	for i, name := range []string{"one", "two", "three"} {
		c.Clusters = append(c.Clusters, harness.Cluster{Name: name, Endpoints: greeting[i : i+1]})
	}
	return c
}

// destinations are where clients connect to, what they begin with, and who serves them. Envoy takes the connection first, and then finds
// nobody; without it the client does.
var destinations = []struct {
	name, address, begins, want, envoy string
}{
	{"a host of the routes", "127.81.0.1:9080", "shop", "http", ""},
	{"a host of the routes where somebody listens", "127.81.0.2:9080", "shop", "http", ""},
	{"another host", "127.81.0.2:9080", "else", "original", ""},
	{"another host where nobody listens", "127.81.0.1:9080", "else", "503", ""},
	{"HTTP/1.0", "127.81.0.3:9080", "old", "passed", ""},
	{"TLS", "127.81.0.3:9080", "TLS", "passed", ""},
	{"text", "127.81.0.3:9080", "text", "passed", ""},
	{"TLS where nobody listens", "127.81.0.1:9080", "TLS", "closed", ""},
	{"the address before the port", "127.81.0.4:9080", "text", "two", ""},
	{"an address without HTTP", "127.81.0.4:3306", "text", "one", ""},
	{"its port at another address", "127.81.0.5:3306", "text", "five", ""},
	{"a port that nobody has", "127.81.0.6:7000", "shop", "six", ""},
	{"a port that nobody has, where nobody listens", "127.81.0.6:7001", "shop", "refused", "closed"},
	{"the port of the listener itself", "127.81.0.6:15001", "text", "closed", ""},
	{"a range", "127.82.0.1:9090", "text", "two", ""},
	{"a range in it", "127.82.3.1:9090", "text", "one", ""},
	{"outside of the range", "127.83.0.1:9090", "text", "three", ""},
	{"an excluded address", "127.0.0.1:9080", "shop", "local", ""},
}

// whoServed names the server of an exchange.
func whoServed(sent []byte, a programs.RawAnswer) string {
	line, rest, _ := bytes.Cut(a.Bytes, []byte("\n"))
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(a.Bytes)), nil)
	switch {
	case strings.Contains(a.Error, "refused"):
		return "refused"
	case err == nil && response.Header.Get(programs.Identity) != "":
		return response.Header.Get(programs.Identity)
	case err == nil:
		return fmt.Sprint(response.StatusCode)
	case len(a.Bytes) == 0 && a.Closed:
		return "closed"
	case bytes.Equal(rest, sent):
		return string(line)
	}
	return fmt.Sprintf("%s %q", a.Error, a.Bytes)
}

// servers are those behind a sidecar.
func servers(t *testing.T, place *harness.Place) (http netip.AddrPort, greeting []netip.AddrPort) {
	t.Helper()
	_, greeting = greeters(t, place, "one", "two", "three")
	place.OriginAt(t, "original", netip.MustParseAddrPort("127.81.0.2:9080"))
	for identity, address := range map[string]string{"passed": "127.81.0.3:9080", "five": "127.81.0.5:3306", "six": "127.81.0.6:7000", "local": "127.0.0.1:9080"} {
		place.GreeterAt(t, identity, netip.MustParseAddrPort(address))
	}
	return place.Origin(t, "http").Address, greeting
}

func requireServed(t *testing.T, place *harness.Place, envoy bool, different map[string]string) {
	t.Helper()
	begins := map[string][]byte{
		"shop": []byte("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"), "else": []byte("GET / HTTP/1.1\r\nHost: else.test\r\n\r\n"),
		"old": []byte("GET / HTTP/1.0\r\n\r\n"), "TLS": hello(t, "shop.test", "h2"), "text": []byte("hello\n"),
	}
	var sends []programs.RawSend
	for _, d := range destinations {
		sends = append(sends, programs.RawSend{Address: d.address, Bytes: begins[d.begins]})
	}
	for i, a := range runAnswered(t, place, sends...) {
		d := destinations[i]
		want := d.want
		if different[d.name] != "" {
			want = different[d.name]
		}
		if envoy && d.envoy != "" {
			want = d.envoy
		}
		if got := whoServed(sends[i].Bytes, a); got != want {
			t.Errorf("%s: %s to %s: served by %s, want %s", d.name, d.begins, d.address, got, want)
		}
	}
}

// registryOnly is what becomes of destinations that nobody has where the rest leads nowhere.
var registryOnly = map[string]string{
	"its port at another address": "closed", "a port that nobody has": "closed", "a port that nobody has, where nobody listens": "closed",
}

// TestSidecarsTakeConnectionsAsXLBDoes asks a real Envoy, to which a firewall sends connections as to a sidecar.
func TestSidecarsTakeConnectionsAsXLBDoes(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it is asked anyway")
	for rest, different := range map[string]map[string]string{"pass": nil, "black": registryOnly} {
		t.Run(rest, func(t *testing.T) {
			place := harness.Isolated(t)
			http, greeting := servers(t, place)
			config := sidecar(rest, http, greeting)
			const mark = 1337
			config.Fields = map[string]any{"cluster_manager": map[string]any{"upstream_bind_config": map[string]any{
				"source_address": map[string]any{"address": "0.0.0.0", "port_value": 0},
				"socket_options": []any{map[string]any{"level": 1, "name": 36, "int_value": mark, "state": "STATE_PREBIND"}},
			}}}
			harness.StartEnvoy(t, config, place)
			place.Firewall(t, fmt.Sprintf(`table ip sidecar {
				chain output {
					type nat hook output priority -100;
					meta mark != %d ip daddr 127.80.0.0/14 tcp dport 1-65535 redirect to :15001
				}
			}`, mark))
			requireServed(t, place, true, different)
		})
	}
}

func TestConnectionsAreTakenByPortAndByWhatIsLeft(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "see TestSidecarsTakeConnectionsAsXLBDoes")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.Isolated(t)
		http, greeting := servers(t, place)
		b := harness.Start(t, mode, sidecar("pass", http, greeting), place)
		requireServed(t, place, false, nil)
		requireListeners(t, b)
		requireAllServed(t, place)
		service := netip.MustParseAddrPort("127.81.0.77:9080")
		taken := b.Metric(t, "xlb_verdicts_total", `verdict="connect_intercepted"`)
		shop := "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"
		var steps []programs.Step
		for range 20 {
			steps = append(steps, programs.Step{Send: shop}, programs.Step{Receive: true})
		}
		report := runExchange(t, place, service, await.Patience, steps...)
		if report.Peer != service.String() {
			t.Errorf("the peer is %s, want %s", report.Peer, service)
		}
		for _, r := range report.Replies {
			if r.Status != 200 || r.Identity != "http" {
				t.Errorf("reply %+v", r)
			}
		}
		if fast, _ := b.Served(t); mode.Fast && fast < 20 {
			t.Errorf("%g requests in the kernel, want 20", fast)
		}
		if now := b.Metric(t, "xlb_verdicts_total", `verdict="connect_intercepted"`); now != taken+1 {
			t.Errorf("%g connections taken, want 1", now-taken)
		}
		b.Reload(t, sidecar("black", http, greeting))
		requireServed(t, place, false, registryOnly)
		b.Reload(t, sidecar("pass", http, greeting))
		requireServed(t, place, false, nil)
	})
}

// requireAllServed has many clients begin at once with what is for no routes.
func requireAllServed(t *testing.T, place *harness.Place) {
	t.Helper()
	const clients = 60
	send := programs.RawSend{Address: "127.81.0.3:9080", Bytes: []byte("hello\n")}
	for _, a := range runAnswered(t, place, slices.Repeat([]programs.RawSend{send}, clients)...) {
		if got := whoServed(send.Bytes, a); got != "passed" {
			t.Errorf("one of many: served by %s", got)
		}
	}
}

// requireListeners asks for the list.
func requireListeners(t *testing.T, b *harness.Balancer) {
	t.Helper()
	var rows []struct {
		Name, Address, Protocol string
		Intercepted             bool
	}
	if err := json.Unmarshal([]byte(b.Get(t, "/xlb/listeners")), &rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s %s %t", r.Name, r.Address, r.Protocol, r.Intercepted))
	}
	want := []string{
		"0.0.0.0_9080 0.0.0.0:9080 HTTP true",
		"0.0.0.0_9090 (127.82.0.0/16, port 9090) 127.82.0.0:9090 TCP true",
		"0.0.0.0_9090 (127.82.3.0/24, port 9090) 127.82.3.0:9090 TCP true",
		"0.0.0.0_9090 0.0.0.0:9090 TCP true",
		"127.81.0.4_3306 127.81.0.4:3306 TCP true",
		"127.81.0.4_9080 127.81.0.4:9080 TCP true",
		"virtualInbound 0.0.0.0:15006 - false",
		"virtualOutbound (0.0.0.0/0, port 15001) 0.0.0.0:15001 TCP true",
		"virtualOutbound 0.0.0.0:0 TCP false",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("listeners:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
