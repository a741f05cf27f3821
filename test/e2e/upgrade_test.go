// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// switching is a configuration in which some routes allow upgrades and CONNECT.
func switching(service, endpoint netip.AddrPort) harness.Config {
	config := harness.OneCluster(service, endpoint)
	listener := &config.Listeners[0]
	listener.Upgrades = []harness.Upgrade{{Type: "websocket"}, {Type: "never", Disabled: true}}
	to := harness.To("origins")
	listener.Hosts = []harness.VirtualHost{
		{Routes: []harness.Route{
			{Path: "/switch", Headers: map[string]string{"x-route": "off"}, Clusters: to, Upgrades: []harness.Upgrade{{Type: "WebSocket", Disabled: true}}},
			{Path: "/switch", Headers: map[string]string{"x-route": "on"}, Clusters: to, Upgrades: []harness.Upgrade{{Type: "never"}}},
			{Path: "/switch", Clusters: to},
			{Path: "/ok", Clusters: to, Upgrades: []harness.Upgrade{{Type: "CONNECT"}}},
		}},
		{Domains: []string{"forward.test:80"}, Routes: []harness.Route{
			{Connect: true, Clusters: to, Upgrades: []harness.Upgrade{{Type: "CONNECT"}}},
		}},
		{Domains: []string{"terminate.test:80"}, Routes: []harness.Route{
			{Connect: true, Clusters: to, Upgrades: []harness.Upgrade{{Type: "CONNECT", Terminated: true}}},
		}},
		{Domains: []string{"refuse.test:80"}, Routes: []harness.Route{{Connect: true, Clusters: to}}},
	}
	return config
}

// What is expected is Envoy's: XLB_E2E_PEER=envoy asks it.
func TestProtocolsAreSwitchedAsConfigured(t *testing.T) {
	harness.Beside(t)
	request := func(path string, fields ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: e2e.test\r\n" + strings.Join(append(fields, "\r\n"), "\r\n")
	}
	connect := func(authority string) string {
		return "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n"
	}
	upgrade := func(protocol string, fields ...string) string {
		return request("/switch", append(fields, "Connection: Upgrade", "Upgrade: "+protocol)...)
	}
	tests := []struct {
		name, send, status string
		// tail is how the answer ends.
		tail   string
		closed bool
	}{
		{"upgrade", upgrade("websocket") + "early", "101 Switching Protocols", "\r\n\r\nearly", false},
		{"upgrade in another case", upgrade("WEBSOCKET") + "early", "101 Switching Protocols", "\r\n\r\nearly", false},
		{"disabled", upgrade("never") + "early", "403 Forbidden", "\r\n\r\n", true},
		{"not configured", upgrade("other"), "403 Forbidden", "\r\n\r\n", true},
		{"list of protocols", upgrade("websocket, other"), "403 Forbidden", "\r\n\r\n", true},
		{"disabled by the route", upgrade("websocket", "x-route: off"), "403 Forbidden", "\r\n\r\n", true},
		{"enabled by the route", upgrade("never", "x-route: on") + "early", "101 Switching Protocols", "\r\n\r\nearly", false},
		{"no route", request("/none", "Connection: Upgrade", "Upgrade: other"), "404 Not Found", "\r\n\r\n", true},
		{"no Connection field", request("/ok", "Upgrade: other"), "200 OK", "\r\n\r\none", false},
		{"h2c", request("/ok", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"), "200 OK", "\r\n\r\none", false},

		{"CONNECT forwarded", connect("forward.test:80") + "early", "200 OK", "\r\n\r\nearly", false},
		{"CONNECT terminated", connect("terminate.test:80") + get("/ok"), "200 OK", "\r\n\r\none", false},
		{"CONNECT not allowed", connect("refuse.test:80") + "early", "403 Forbidden", "\r\n\r\n", true},
		{"CONNECT without its matcher", connect("e2e.test:80") + "early", "404 Not Found", "\r\n\r\n", true},
		{"CONNECT without a port", connect("forward.test"), "400 Bad Request", "", true},
		{"GET without a path route", strings.Replace(get("/ok"), "e2e.test", "forward.test:80", 1), "404 Not Found", "\r\n\r\n", false},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		service := harness.Service()
		_, addresses := origins(t, place, "one")
		harness.Start(t, mode, switching(service, addresses[0]), place)
		var sends []string
		for _, tt := range tests {
			sends = append(sends, tt.send)
		}
		for i, a := range sendRaw(t, place, service, sends) {
			tt := tests[i]
			if firstLine(a.Bytes) != "HTTP/1.1 "+tt.status || !bytes.HasSuffix(a.Bytes, []byte(tt.tail)) || a.Closed != tt.closed {
				t.Errorf("%s: got %q, closed %t, want %s, %q at its end, closed %t", tt.name, a.Bytes, a.Closed, tt.status, tt.tail, tt.closed)
			}
		}
	})
}

// A tunnel lasts until both sides have ended it, and not a moment longer.
func TestTunnelsEndWhenBothSidesHave(t *testing.T) {
	harness.Beside(t)
	const clients, tunnels = 16, 30
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clientPlace, serverPlace := topology.places(t)
				service := harness.Service()
				_, addresses := origins(t, serverPlace, "one", "two")
				config := harness.OneCluster(service, addresses...)
				config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
				harness.Start(t, mode, config, clientPlace)
				var report programs.TunnelReport
				clientPlace.Program(t, programs.TunnelProgram, programs.TunnelSpec{
					Address: service.String(), Clients: clients, Tunnels: tunnels, Timeout: 30 * time.Second,
				}).Next(t, &report)
				if report.Whole != clients*tunnels {
					t.Errorf("%d of %d tunnels echoed everything and ended; the others: %q", report.Whole, clients*tunnels, report.Failures)
				}
			})
		})
	}
}
