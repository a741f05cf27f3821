// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// A client that leaves says nothing about the endpoint: as in Envoy, /clusters counts no error.
func TestClientsThatLeaveAreNoErrorsOfEndpoints(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for topology, places := range map[string]func() (clients, servers *harness.Place){
			"same host": func() (clients, servers *harness.Place) { place := harness.SameHost(t); return place, place },
			"two hosts": func() (clients, servers *harness.Place) { return harness.TwoHosts(t) },
		} {
			t.Run(topology, func(t *testing.T) { playLeavers(t, mode, places) })
		}
	})
}

func playLeavers(t *testing.T, mode harness.Mode, places func() (clients, servers *harness.Place)) {
	clients, servers := places()
	_, addresses := origins(t, servers, "one")
	service := harness.Service()
	config := harness.OneCluster(service, addresses...)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	balancer := harness.Start(t, mode, config, clients)
	leavers := map[string][]programs.Step{
		"before the response":    {{Send: get("/hold")}},
		"in the request":         {{Send: "POST /hold HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 100\r\n\r\npart"}},
		"in chunks":              {{Send: "POST /hold HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npa"}},
		"in the response":        {{Send: get("/body?size=300000")}, {Sip: 1000}},
		"in a long response":     {{Send: get("/body?size=50000000")}, {Sip: 100000}},
		"half, in the request":   {{Send: "POST /hold HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 100\r\n\r\npart"}, {HalfClose: true}, {End: true}},
		"in a tunnel":            {{Send: "GET /switch HTTP/1.1\r\nHost: e2e.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"}, {Receive: true}},
		"half, in a tunnel":      {{Send: "GET /switch HTTP/1.1\r\nHost: e2e.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"}, {Receive: true}, {HalfClose: true}, {End: true}},
		"behind a whole request": append(getAndReceive("/"), programs.Step{Send: get("/hold")}),
	}
	for name, steps := range leavers {
		for range 3 {
			runExchange(t, clients, service, time.Second, steps...)
		}
		if n := awaitIdle(t, balancer, addresses[0]); n != 0 {
			t.Fatalf("clients that leave %s: %d errors of the endpoint", name, n)
		}
	}
	requireStatus(t, runExchange(t, clients, service, await.Patience, getAndReceive("/")...), 200)
}

// awaitIdle waits until the endpoint serves no request, and returns its errors.
func awaitIdle(t *testing.T, b *harness.Balancer, endpoint netip.AddrPort) int {
	t.Helper()
	harness.Eventually(t, await.Patience, "no request in flight", func() bool { return endpointStat(t, b, endpoint, "rq_active") == 0 })
	return endpointStat(t, b, endpoint, "rq_error")
}

// endpointStat is a figure of /clusters.
func endpointStat(t *testing.T, b *harness.Balancer, endpoint netip.AddrPort, name string) int {
	t.Helper()
	prefix := "origins::" + endpoint.String() + "::" + name + "::"
	for line := range strings.Lines(b.Get(t, "/clusters")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("/clusters has no %s", prefix)
	return 0
}
