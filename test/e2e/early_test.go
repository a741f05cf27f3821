// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// hostileSeed is fixed: a test that fails fails again.
const hostileSeed = 1

// publicTimeout is that of the route of publicOnly. No answer takes as long.
const publicTimeout = await.Patience

// publicOnly lets nobody reach anything but what is public.
func publicOnly(service netip.AddrPort, endpoints ...netip.AddrPort) harness.Config {
	config := harness.OneCluster(service, endpoints...)
	route := &config.Listeners[0].Hosts[0].Routes[0]
	route.Prefix, route.Timeout = traffic.Prefix, publicTimeout
	return config
}

// violationsDirectory is where clients and servers write down each byte in a wrong place. At its end the test fails for what they have written,
// also if it has failed for something else before.
func violationsDirectory(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	t.Cleanup(func() {
		all, err := traffic.ReadViolations(directory)
		if err != nil {
			t.Error(err)
		}
		harness.ReportViolations(t, all)
	})
	return directory
}

// requireAllRight fails unless every exchange of clients was right.
func requireAllRight(t *testing.T, who string, r traffic.Report) {
	t.Helper()
	if right, made := r.Counts[traffic.Right], r.Counts[traffic.Exchanges]; right < made || made == 0 {
		t.Errorf("%s: %d of %d exchanges were right: %v", who, right, made, r.Counts)
	}
}

// A server that answers before it has read a request, and reads on, as nginx does, gets each body whole and where it belongs.
func TestEarlyAnswersMixNobodysBytes(t *testing.T) {
	harness.OnlyXLB(t, "it holds the locks of XLB's connections")
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		directory := violationsDirectory(t)
		server, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "early", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		})
		service := harness.Service()
		mode.Waits = true
		balancer := harness.Start(t, mode, publicOnly(service, endpoint), clients)
		pid := server.PID()
		if clients != servers {
			pid = balancer.PID()
		}
		overtake(t, mode, clients, traffic.OvertakeSpec{PID: pid, Port: endpoint.Port(), Clients: traffic.ClientSpec{
			Address: service.String(), Seed: hostileSeed, Directory: directory,
		}})
	})
}

// nginx answers to the head with "return", and discards the body behind it.
func TestNginxThatReturnsMixesNobodysBytes(t *testing.T) {
	harness.OnlyXLB(t, "it holds the locks of XLB's connections")
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		nginx := servers.Nginx(t, harness.Nginx{Identity: "what nginx always says"})
		service := harness.Service()
		mode.Waits = true
		balancer := harness.Start(t, mode, publicOnly(service, nginx.Address), clients)
		pid := nginx.PID()
		if clients != servers {
			pid = balancer.PID()
		}
		overtake(t, mode, clients, traffic.OvertakeSpec{PID: pid, Port: nginx.Address.Port(), Clients: traffic.ClientSpec{
			Address: service.String(), Seed: hostileSeed, Directory: t.TempDir(), Fixed: "what nginx always says",
		}})
	})
}

// overtake has clients ask while the last byte of another's request, which is answered already, is on its way between the program and
// the endpoint's connection.
func overtake(t *testing.T, mode harness.Mode, place *harness.Place, spec traffic.OvertakeSpec) {
	t.Helper()
	const rounds = 20
	c := &spec.Clients
	c.Process, c.Patience, c.Kinds, c.Acts = 1, await.Patience, []string{traffic.KindWhole}, []string{traffic.ActEarly}
	spec.Rounds = rounds
	var report traffic.Report
	place.Program(t, programs.HostileOvertakerProgram, spec).Next(t, &report)
	t.Logf("%v", report.Counts)
	requireAllRight(t, "clients", report)
	if held := report.Counts[traffic.Held]; mode.Fast && held < rounds/2 {
		t.Errorf("only %d of %d requests were held up", held, rounds)
	}
}

// A response that comes in pieces, and early, is the daemon's, while the kernel still moves the request. The endpoint may not get all of that, if the
// client is told that the connection ends; but what it gets is the request from its beginning on, without a hole.
func TestEarlyAnswersInPiecesLeaveNoHoleInTheRequest(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, framing := range []struct {
		name    string
		chunked int
	}{{"chunked", 100}, {"with a length", 0}} {
		t.Run(framing.name, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				directory := violationsDirectory(t)
				_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
					Name: "early", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
				})
				service := harness.Service()
				harness.Start(t, mode, publicOnly(service, endpoint), clients)
				var report traffic.Report
				clients.HostileClients(t, traffic.ClientSpec{
					Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
					Workers: 4, Requests: 25, PerConnection: 40, Body: [2]int{200_000, 250_000}, Reply: [2]int{0, 300},
					Kinds: []string{traffic.KindPieces}, Acts: []string{traffic.ActEarly}, Gap: 300 * time.Microsecond,
					Pieces: []string{traffic.PiecesMany, traffic.PiecesBytes}, ChunkedBodies: framing.chunked,
				}).Next(t, &report)
				t.Logf("%v", report.Counts)
				requireAllRight(t, "clients", report)
			})
		})
	}
}
