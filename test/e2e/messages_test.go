// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// The kernel keeps a kilobyte for each message that is moved and not read, and charges it to nobody: so XLB bounds how many one connection has,
// however small they are.
func TestSmallMessagesTakeLittleOfTheKernelsMemory(t *testing.T) {
	suite.Long(t, suite.Machine)
	const (
		dust  = 150_000
		bound = 8 << 20
	)
	tests := []struct {
		name        string
		body, reply int
		exchanges   int
	}{
		{"requests that nobody reads", dust, 10, 1},
		{"responses that nobody reads", -1, dust, 1},
		{"responses of which one byte is read", -1, 50, 800},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				directory := violationsDirectory(t)
				_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
					Name: "stingy", Seed: hostileSeed, Directory: directory, Patience: await.Patience, Stingy: 1,
				})
				service := harness.Service()
				config := publicOnly(service, endpoint)
				config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
				harness.Start(t, mode, config, clients)
				before := harness.Kilobytes(t)
				hoarder := clients.Program(t, programs.HostileHoarderProgram, traffic.HoardSpec{
					Exchanges: tt.exchanges,
					Clients: traffic.ClientSpec{
						Address: service.String(), Process: 1, Seed: hostileSeed, Directory: directory, Patience: await.Patience,
						Kinds: []string{traffic.KindBytes}, Acts: []string{traffic.ActAnswers}, Pieces: []string{traffic.PiecesDust},
						ReceiveBuffer: 4 << 20, Body: [2]int{tt.body, tt.body}, Reply: [2]int{tt.reply, tt.reply},
					},
				})
				var report traffic.Report
				hoarder.Next(t, &report)
				// What the server still sends comes soon: the largest of many looks counts.
				most := int64(0)
				for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					most = max(most, harness.Kilobytes(t)-before)
				}
				t.Logf("%v, %d kB", report.Counts, most>>10)
				if most > bound {
					t.Errorf("memory of the kernel for one connection's messages: got %d kB, want at most %d kB", most>>10, bound>>10)
				}
				hoarder.Kill(t)
				harness.Eventually(t, patience, "the kernel has its memory back", func() bool {
					return harness.Kilobytes(t)-before < bound/4
				})
			})
		})
	}
}
