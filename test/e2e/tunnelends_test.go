// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// tunnelsTo allows upgrades to websocket, by the route of publicOnly.
func tunnelsTo(service, endpoint netip.AddrPort) harness.Config {
	config := publicOnly(service, endpoint)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	return config
}

// Clients that are killed at any moment of a tunnel's life leave no lease, and others, whose requests take the slots, source ports and
// connections that tunnels leave, get what is theirs.
func TestKilledClientsOfTunnelsLeaveNothing(t *testing.T) {
	const rounds = 20
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		directory := violationsDirectory(t)
		_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		})
		service := harness.Service()
		config := tunnelsTo(service, endpoint)
		balancer := harness.Start(t, mode, config, clients)
		bystanders := clients.HostileClients(t, traffic.ClientSpec{
			Address: service.String(), Process: 1 + rounds, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			Workers: 4, PerConnection: 3, Body: [2]int{-1, 3000}, Reply: [2]int{0, 3000}, ChunkedBodies: 50, Gap: time.Millisecond,
			Kinds:  []string{traffic.KindWhole, traffic.KindHeadBody, traffic.KindPieces},
			Acts:   []string{traffic.ActAnswers, traffic.ActEarly, traffic.ActLate},
			Pieces: traffic.AllPieces,
		})
		for round := range rounds {
			running := clients.HostileClients(t, traffic.ClientSpec{
				Address: service.String(), Process: uint32(1 + round), Seed: hostileSeed, Directory: directory, Patience: await.Patience,
				Workers: 8, Body: [2]int{0, 1000}, Reply: [2]int{0, 3000},
				Kinds: []string{traffic.KindTunnel}, Acts: []string{traffic.ActAnswers}, Pieces: traffic.AllPieces, Gap: time.Millisecond,
			})
			var before traffic.Report
			harness.Eventually(t, patience, "tunnels are in use", func() bool {
				running.Ask(t, "report", &before)
				return before.Counts[traffic.Right] > 10
			})
			running.Kill(t)
		}
		var others traffic.Report
		bystanders.Ask(t, "report", &others)
		bystanders.Kill(t)
		t.Logf("beside the tunnels: %v", others.Counts)
		if others.Counts[traffic.Right] < rounds {
			t.Errorf("beside the tunnels only %d exchanges were right", others.Counts[traffic.Right])
		}
		harness.Eventually(t, patience, "no lease and no connection is left", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0 && balancer.Metric(t, "xlb_connections_active") == 0
		})
	})
}

// An endpoint may end its side of a tunnel first: what the client sends behind that is the tunnel's still, and no request.
func TestTunnelsOfWhichTheEndpointEndsItsSideFirstAreWhole(t *testing.T) {
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		directory := violationsDirectory(t)
		server, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		})
		service := harness.Service()
		config := tunnelsTo(service, endpoint)
		harness.Start(t, mode, config, clients)
		running := clients.HostileClients(t, traffic.ClientSpec{
			Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			Workers: 4, Requests: 50, Body: [2]int{0, 5000}, Reply: [2]int{0, 300},
			Kinds: []string{traffic.KindTunnel}, Acts: []string{traffic.ActAnswers}, Pieces: traffic.AllPieces, Gap: time.Millisecond,
		})
		var got, served traffic.Report
		running.Next(t, &got)
		requireAllRight(t, "tunnels", got)
		server.Ask(t, "report", &served)
		if short := served.Counts["bodies cut short"]; short > 0 {
			t.Errorf("the endpoint was not given the end of %d of %d tunnels", short, served.Counts[traffic.Exchanges])
		}
	})
}

// The time of a route is the answer's, also where the daemon had to read that because its head came in pieces.
func TestTunnelOutlivesTheTimeOfItsRoute(t *testing.T) {
	suite.Long(t, suite.Clock)
	const timeout = 500 * time.Millisecond
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
		config := tunnelsTo(service, server.Address)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = timeout
		harness.Start(t, mode, config, clients)
		hear := func(p *harness.Puppet, end string) (conn int) { return heard(t, p, end) }
		send := func(p *harness.Puppet, conn int, bytes string) { say(t, p, conn, bytes) }
		here := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
		send(client, here, "GET "+traffic.Prefix+" HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		there := hear(server, "\r\n\r\n")
		send(server, there, "HTTP/1.1 101 Switching")
		send(server, there, " Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		hear(client, "\r\n\r\n")
		// What must not happen has the time in which it would.
		time.Sleep(2 * timeout)
		send(server, there, "late")
		hear(client, "late")
		send(client, here, "later")
		hear(server, "later")
		// The daemon waits for tunnels when it ends.
		client.Pull(t, programs.Pull{Do: programs.PuppetReset, Conn: here})
	})
}

// A client that resets its connection ends its tunnel, also where the daemon waits for the endpoint, which waits for the client.
func TestTunnelEndsWithAClientThatResets(t *testing.T) {
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
		config := tunnelsTo(service, server.Address)
		balancer := harness.Start(t, mode, config, clients)
		for _, head := range [][]string{
			{"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"},
			{"HTTP/1.1 101 Switching", " Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"},
		} {
			here := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
			say(t, client, here, "GET "+traffic.Prefix+" HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			there := heard(t, server, "\r\n\r\n")
			for _, part := range head {
				say(t, server, there, part)
			}
			heard(t, client, "\r\n\r\n")
			client.Pull(t, programs.Pull{Do: programs.PuppetReset, Conn: here})
			harness.Eventually(t, patience, "the endpoint is told of the end", func() bool {
				for _, n := range server.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
					if n.Conn == there && n.Ended != "" {
						return true
					}
				}
				return false
			})
			harness.Eventually(t, patience, "no lease is left", func() bool { return balancer.Metric(t, "xlb_leases_active") == 0 })
		}
	})
}

// heard returns the connection on which a puppet has received something with that end.
func heard(t *testing.T, p *harness.Puppet, end string) (conn int) {
	t.Helper()
	var got [64]string
	harness.Eventually(t, patience, "received: "+end, func() bool {
		for _, n := range p.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
			got[n.Conn] += string(n.Bytes)
			if strings.HasSuffix(got[n.Conn], end) {
				conn = n.Conn
			}
		}
		return conn != 0
	})
	return conn
}

func say(t *testing.T, p *harness.Puppet, conn int, bytes string) {
	t.Helper()
	p.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(bytes)})
}
