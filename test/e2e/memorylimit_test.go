// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// What the sockets of a cgroup may take of TCP memory, and what its process needs besides.
const (
	tcpMemoryLimit  = 32 << 10
	memoryBesideTCP = 24 << 20
)

// A cgroup that may not take more TCP memory has its own exchanges slower, or visibly broken: none of its bytes go to others, and
// nothing hangs.
func TestMemoryLimitOfACgroupCutsNobodysMessages(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				directory := violationsDirectory(t)
				server := traffic.ServerSpec{Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience}
				base := traffic.ClientSpec{
					Seed: hostileSeed, Directory: directory, Patience: await.Patience, Acts: []string{traffic.ActAnswers},
					Kinds: []string{traffic.KindWhole}, Pieces: []string{traffic.PiecesOne},
				}
				limited, free := base, base
				limited.Process, limited.Workers, limited.Requests = 1, 4, 5
				free.Process, free.Workers = 2, 4
				free.Body, free.Reply = [2]int{-1, -1}, [2]int{0, 300}
				if side == "client" {
					limited.Body, limited.Reply = [2]int{-1, -1}, [2]int{30_000, 200_000}
					limited.Confine.Cgroups = []string{clients.TCPMemoryLimit(t, tcpMemoryLimit, memoryBesideTCP)}
				} else {
					limited.Body, limited.Reply = [2]int{30_000, 200_000}, [2]int{0, 300}
					server.Confine.Cgroups = []string{servers.TCPMemoryLimit(t, tcpMemoryLimit, memoryBesideTCP)}
				}
				_, endpoint := servers.HostileServer(t, server)
				service := harness.Service()
				limited.Address, free.Address = service.String(), service.String()
				harness.Start(t, mode, publicOnly(service, endpoint), clients)
				others := clients.HostileClients(t, free)
				some := clients.HostileClients(t, limited)
				var got, beside traffic.Report
				some.Next(t, &got)
				others.Finish(t, &beside)
				t.Logf("limited %v, others %v", got.Counts, beside.Counts)
				if side == "client" {
					requireAllRight(t, "others", beside)
				}
				// Over TCP a server with so little memory may take long. On one host its request waits for nothing but what
				// was sent, said to be sent, and not moved.
				if overdue := got.Counts["local 504"] + beside.Counts["local 504"]; clients == servers && overdue > 0 {
					t.Errorf("%d requests were overdue", overdue)
				}
			})
		})
	}
}

// The kernel moves of a response what the client's cgroup allows, and asks the program again about the rest: which is still that client's,
// whoever has the connection to the endpoint by then.
func TestRestOfACutResponseIsNobodyElses(t *testing.T) {
	harness.OnlyXLB(t, "it is of responses that the kernel moves")
	const rounds = 5
	if !harness.FastPath(t) {
		t.Skip("nobody but the kernel cuts messages: needs the fast path")
	}
	place := harness.SameHost(t)
	directory := violationsDirectory(t)
	server, endpoint := place.HostileServer(t, traffic.ServerSpec{
		Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
	})
	service := harness.Service()
	mode := harness.Modes(t)[0]
	mode.Waits = true
	harness.Start(t, mode, publicOnly(service, endpoint), place)
	spec := traffic.CutSpec{
		PID: server.PID(), Rounds: rounds, Cgroup: place.TCPMemoryLimit(t, tcpMemoryLimit, memoryBesideTCP),
		Clients: traffic.ClientSpec{
			Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			Kinds: []string{traffic.KindWhole}, Acts: []string{traffic.ActAnswers}, Pieces: []string{traffic.PiecesOne},
			Reply: [2]int{100_000, 100_000},
		},
	}
	var report traffic.Report
	place.Program(t, programs.HostileCutterProgram, spec).Next(t, &report)
	t.Logf("%v", report.Counts)
	if n := report.Counts[traffic.Undisturbed]; n < rounds {
		t.Errorf("%d of %d exchanges of the other client were right", n, rounds)
	}
}
