// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// A socket that is disconnected in the midst of a request, and connected again, gets nothing of its former connection, and leaves nothing. It may
// be refused.
func TestSocketsThatConnectAgainGetWhatIsTheirs(t *testing.T) {
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		directory := violationsDirectory(t)
		_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		})
		service := harness.Service()
		balancer := harness.Start(t, mode, publicOnly(service, endpoint), clients)
		spec := traffic.ClientSpec{
			Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			Workers: 8, Requests: 20, Body: [2]int{-1, 2000}, Reply: [2]int{0, 5000},
			Kinds: []string{traffic.KindUnspec}, Acts: []string{traffic.ActAnswers, traffic.ActEarly, traffic.ActLate}, Pieces: traffic.AllPieces,
		}
		var report traffic.Report
		clients.HostileClients(t, spec).Next(t, &report)
		t.Logf("%v", report.Counts)
		if n := report.Counts[traffic.Right]; n == 0 {
			t.Error("no exchange of a socket that connected again was right")
		}
		await.Quiet(t, func() string {
			left := map[string]float64{
				"connections": balancer.Metric(t, "xlb_connections_active"), "leases": balancer.Metric(t, "xlb_leases_active"),
			}
			if mode.Fast {
				for _, name := range []string{"conns", "psocks", "slow_conns"} {
					left["entries of "+name] = float64(balancer.MapEntries(t, name))
				}
			}
			maps.DeleteFunc(left, func(_ string, n float64) bool { return n == 0 })
			if len(left) > 0 {
				return fmt.Sprintf("left of the connections: %v", left)
			}
			return ""
		})
	})
}

// A response from another host is with a worker of the kernel for a while, which does not run as long as others keep the processor. A socket
// that is connected again meanwhile must not read it behind the new handshake.
func TestSocketThatConnectsAgainGetsNoResponseOfAWorkers(t *testing.T) {
	if !harness.FastPath(t) {
		t.Skip("no worker moves bytes without the fast path")
	}
	clients, servers := harness.TwoHosts(t)
	directory := violationsDirectory(t)
	listener, endpoint := servers.Listener(t)
	service := harness.Service()
	harness.Start(t, harness.Mode{Name: "fast-path=on", Fast: true}, publicOnly(service, endpoint), clients)
	spec := traffic.ReconnectSpec{Rounds: 20, Clients: traffic.ClientSpec{
		Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		Body: [2]int{-1, -1}, Reply: [2]int{100, 100}, Kinds: []string{traffic.KindWhole}, Acts: []string{traffic.ActAnswers},
		Pieces: []string{traffic.PiecesOne},
	}}
	var report traffic.Report
	clients.Program(t, programs.HostileReconnectorProgram, spec, listener).Next(t, &report)
	t.Logf("%v", report.Counts)
	if n := report.Counts["disconnected"]; n != int64(spec.Rounds) {
		t.Errorf("sockets that were disconnected: got %d, want %d", n, spec.Rounds)
	}
}
