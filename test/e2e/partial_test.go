// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// A client that does not block sends again what was not taken. The endpoint gets each byte once, wherever the kernel stopped: here
// because little may wait that is not sent yet, by a setting of the network namespace.
func TestSendsCutShortAreSentOnce(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		clients.Sysctl(t, "ipv4/tcp_notsent_lowat", "16384")
		directory := violationsDirectory(t)
		_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "honest", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
		})
		service := harness.Service()
		harness.Start(t, mode, publicOnly(service, endpoint), clients)
		spec := traffic.ClientSpec{
			Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			Workers: 4, Requests: 5, Body: [2]int{100_000, 250_000}, Reply: [2]int{0, 300},
			Kinds: []string{traffic.KindNonblocking}, Acts: []string{traffic.ActAnswers, traffic.ActEarly},
			Pieces: []string{traffic.PiecesOne},
		}
		var report traffic.Report
		clients.HostileClients(t, spec).Next(t, &report)
		t.Logf("%v", report.Counts)
		requireAllRight(t, "clients", report)
	})
}

// With the kernel's own settings the buffer of the connection to the endpoint ends somewhere, too: what it takes beside the bytes is not
// known beforehand.
func TestFullBuffersTakeEachByteOnce(t *testing.T) {
	harness.OnlyXLB(t, "it looks at XLB's connections")
	const rounds = 3
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		directory := violationsDirectory(t)
		_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
			Name: "slow", Seed: hostileSeed, Directory: directory, Patience: await.Patience,
			ReceiveBuffer: 64 << 10, Stingy: 1, Pause: time.Second,
		})
		service := harness.Service()
		config := publicOnly(service, endpoint)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
		balancer := harness.Start(t, mode, config, clients)
		var report traffic.Report
		clients.Program(t, programs.HostileFillerProgram, traffic.FillSpec{
			Rounds: rounds, PID: balancer.PID(), Port: endpoint.Port(),
			Clients: traffic.ClientSpec{
				Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
				Kinds: []string{traffic.KindNonblocking}, Acts: []string{traffic.ActAnswers}, Pieces: []string{traffic.PiecesOne},
				Body: [2]int{6 << 20, 6 << 20}, Reply: [2]int{0, 300},
			},
		}).Next(t, &report)
		t.Logf("%v", report.Counts)
		requireAllRight(t, "clients", report)
	})
}
