// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// topology is where servers are, seen from the clients.
type topology struct {
	name string
	// places returns that of the clients and the balancer, and the servers'.
	places func(t testing.TB) (clients, servers *harness.Place)
}

var topologies = []topology{
	{"same host", func(t testing.TB) (_, _ *harness.Place) {
		place := harness.SameHost(t)
		return place, place
	}},
	{"cross host", harness.TwoHosts},
}

// pair is a client library before two servers of a library.
type pair struct {
	clients  library
	place    *harness.Place
	service  netip.AddrPort
	balancer *harness.Balancer
	servers  []*server
	result   *result
}

// servers of a pair. An endpoint has at most 512 i-socks, and a WebSocket keeps
// one: the thousand connections of the crowd need two endpoints.
const servers = 2

func newPair(t *testing.T, clients, of library, where topology, mode harness.Mode, result *result) *pair {
	t.Helper()
	p := &pair{clients: clients, service: harness.Service(), result: result}
	clientPlace, serverPlace := where.places(t)
	p.place = clientPlace
	var addresses []netip.AddrPort
	for range servers {
		s := of.server(t, serverPlace)
		p.servers, addresses = append(p.servers, s), append(addresses, s.address)
	}
	config := harness.OneCluster(p.service, addresses...)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	config.Listeners[0].Hosts[0].Routes[0].RetriedByEnvoy = true
	p.balancer = harness.Start(t, mode, config, clientPlace)
	return p
}

// open starts a client and requires that all its connections are open.
func (p *pair) open(t *testing.T, s spec, connections int) *client {
	t.Helper()
	s.URL = "ws://" + p.service.String()
	c := p.clients.client(t, p.place, s)
	if c.report.Open != connections || c.report.Errors > 0 {
		t.Fatalf("%s: open connections: got %d, want %d; %d errors, the first: %q",
			s.Case, c.report.Open, connections, c.report.Errors, c.report.Problems)
	}
	p.result.connections += connections
	p.result.compressed += c.report.Compressed
	return c
}

// finish plays a client to its end and adds up what it did.
func (p *pair) finish(t *testing.T, c *client) report {
	t.Helper()
	r := c.play(t)
	p.result.messages += r.Messages
	p.result.pings += r.Pings
	p.result.bytes += r.Bytes + r.Sent
	p.result.errors += r.Errors
	return r
}

// counters adds up what the servers count.
func (p *pair) counters(t *testing.T, command string) counters {
	t.Helper()
	sum := counters{Ends: map[string]int{}}
	for _, s := range p.servers {
		c := s.counters(t, command)
		sum.Open += c.Open
		sum.Opened += c.Opened
		sum.Messages += c.Messages
		sum.Sent += c.Sent
		for code, n := range c.Ends {
			sum.Ends[code] += n
		}
	}
	return sum
}

// requireAllEnded waits until no server has a connection: an end has to travel.
func (p *pair) requireAllEnded(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "every server has seen the end of every connection", func() bool {
		return p.counters(t, "state").Open == 0
	})
}
