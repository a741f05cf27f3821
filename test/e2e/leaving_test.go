// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// TestEndpointThatLeavesFinishesItsRequests takes an endpoint out of service while a download, two uploads and a tunnel use it: it gets no
// new request, what is in flight ends well, and then its connections close.
func TestEndpointThatLeavesFinishesItsRequests(t *testing.T) {
	suite.Long(t, suite.Slow)
	places := map[string]func(t *testing.T) (clients, servers *harness.Place){
		"same host": func(t *testing.T) (clients, servers *harness.Place) { p := harness.SameHost(t); return p, p },
		"two hosts": func(t *testing.T) (clients, servers *harness.Place) { return harness.TwoHosts(t) },
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for where, place := range places {
			t.Run(where+", removed", func(t *testing.T) {
				clients, servers := place(t)
				playLeaving(t, mode, clients, servers, func(c *harness.Config, _, next netip.AddrPort) {
					c.Clusters[0].Endpoints = []netip.AddrPort{next}
				})
			})
			t.Run(where+", draining", func(t *testing.T) {
				clients, servers := place(t)
				playLeaving(t, mode, clients, servers, func(c *harness.Config, old, next netip.AddrPort) {
					c.Clusters[0].Fields = fields{"load_assignment": fields{"cluster_name": "origins", "endpoints": []any{fields{
						"lb_endpoints": []any{endpointWith(old, "DRAINING"), endpointWith(next, "HEALTHY")},
					}}}}
				})
			})
		}
	})
}

func endpointWith(a netip.AddrPort, health string) fields {
	return fields{"health_status": health, "endpoint": fields{"address": fields{
		"socket_address": fields{"address": a.Addr().String(), "port_value": a.Port()},
	}}}
}

// leavingBeats are requests that take a second and a half or more.
func leavingBeats() [][]programs.Beat {
	const later = 1500 * time.Millisecond
	return [][]programs.Beat{
		beats(ask("/drip?n=40&ms=50"), receive),
		beats(partialBody, wait(later), send("12345678"), receive),
		beats(partialChunked, wait(later), send("3\r\nabc\r\n0\r\n\r\n"), receive),
		beats(upgrade, receive, wait(later), send("hello"), programs.Beat{Sip: 5}),
	}
}

func playLeaving(t *testing.T, mode harness.Mode, clients, servers *harness.Place, leave func(c *harness.Config, old, next netip.AddrPort)) {
	t.Helper()
	// What is in flight may end before the change is in force, where processors are late.
	await.OneOfThree(t, "an endpoint that leaves", func() string { return playOneLeaving(t, mode, clients, servers, leave) })
}

func playOneLeaving(
	t *testing.T, mode harness.Mode, clients, servers *harness.Place, leave func(c *harness.Config, old, next netip.AddrPort),
) (difference string) {
	t.Helper()
	service, old, next := harness.Service(), servers.Pacer(t), servers.Pacer(t)
	config := harness.OneCluster(service, old.Address)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	balancer := harness.Start(t, mode, config, clients)
	runLoad(t, clients, programs.LoadSpec{Address: service.String(), Requests: 20})

	spec := programs.TimelineSpec{Patience: await.Patience}
	for _, b := range leavingBeats() {
		spec.Clients = append(spec.Clients, programs.TimelineClient{Address: service.String(), Beats: b})
	}
	timeline := clients.Program(t, programs.TimelineProgram, spec)
	awaitPacer(t, "requests in flight", old, func(conns []programs.PacerConn) bool { return busyConns(conns) == len(spec.Clients) })

	leave(&config, old.Address, next.Address)
	balancer.Reload(t, config)
	awaitPacer(t, "a request at the other endpoint", next, func([]programs.PacerConn) bool {
		requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: service.String(), Requests: 1}))
		return requestsOf(next.Conns(t)) > 0
	})
	before, had := requestsOf(old.Conns(t)), requestsOf(next.Conns(t))
	requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: service.String(), Requests: 50, Connections: 4}))
	if got := requestsOf(old.Conns(t)); got != before {
		t.Errorf("the endpoint that leaves has got %d new requests", got-before)
	}
	if got := requestsOf(next.Conns(t)) - had; got != 200 {
		t.Errorf("the other endpoint has got %d requests of 200", got)
	}
	inFlight := busyConns(old.Conns(t))
	var report programs.TimelineReport
	timeline.Next(t, &report)
	want := [][]string{{"200 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}, {"200 read 10"}, {"200 read 5"}, {"101 "}}
	if diff := cmp.Diff(want, whats(report.Clients)); diff != "" {
		t.Errorf("requests in flight (-want +got):\n%s", diff)
	}
	awaitPacer(t, "the end of all connections", old, func(conns []programs.PacerConn) bool {
		for _, c := range conns {
			if c.Ended == 0 {
				return false
			}
		}
		return true
	})
	if inFlight == 0 {
		return "nothing was in flight any more: the test has proved nothing"
	}
	return ""
}

func whats(clients [][]programs.Happening) [][]string {
	all := make([][]string, len(clients))
	for i, seen := range clients {
		for _, h := range seen {
			all[i] = append(all[i], h.What)
		}
	}
	return all
}

func busyConns(conns []programs.PacerConn) (n int) {
	for _, c := range conns {
		if c.Busy {
			n++
		}
	}
	return n
}
