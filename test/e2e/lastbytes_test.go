// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// A response from another host is with a worker of the kernel for a while, which does not run as long as others keep the processor. What ends the
// client's connection, since the endpoint has closed before it has read the request, comes behind it: otherwise a client reads an end in place of
// its answer.
func TestEndOfAConnectionComesBehindTheAnswer(t *testing.T) {
	if !harness.FastPath(t) {
		t.Skip("no worker moves bytes without the fast path")
	}
	for name, cut := range map[string]bool{"whole": false, "cut": true} {
		t.Run(name, func(t *testing.T) { departs(t, cut) })
	}
}

func departs(t *testing.T, cut bool) {
	clients, servers := harness.TwoHosts(t)
	listener, endpoint := servers.Listener(t)
	service := harness.Service()
	harness.Start(t, harness.Mode{Name: "fast-path=on", Fast: true}, publicOnly(service, endpoint), clients)
	spec := traffic.DepartSpec{Rounds: 200, Cut: cut, Clients: traffic.ClientSpec{
		Address: service.String(), Process: 1, Seed: hostileSeed, Directory: violationsDirectory(t), Patience: await.Patience,
		Reply: [2]int{100, 100}, Kinds: []string{traffic.KindHeadBody}, Acts: []string{traffic.ActEarly}, Pieces: []string{traffic.PiecesOne},
	}}
	var report traffic.Report
	clients.Program(t, programs.HostileDepartureProgram, spec, listener).Next(t, &report)
	t.Logf("%v", report.Counts)
	if n := report.Counts[traffic.Departed]; n != int64(spec.Rounds) {
		t.Errorf("endpoints that closed: got %d, want %d", n, spec.Rounds)
	}
	wanted := map[bool]string{false: traffic.Right, true: "broken in the body"}[cut]
	if n := report.Counts[wanted]; n != int64(spec.Rounds) {
		t.Errorf("%s: got %d, want %d", wanted, n, spec.Rounds)
	}
}
