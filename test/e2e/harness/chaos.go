// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/chaos/traffic"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// ChaosServer starts a server of the chaos run; with port 0 it takes a free one
// of the place.
func (p *Place) ChaosServer(t testing.TB, spec traffic.ServerSpec) (*Process, netip.AddrPort) {
	t.Helper()
	process := p.Program(t, programs.ChaosServerProgram, spec)
	var ready programs.ChaosServerReady
	process.Next(t, &ready)
	return process, netip.MustParseAddrPort(ready.Address)
}

// ChaosClients starts a process of clients of the chaos run.
func (p *Place) ChaosClients(t testing.TB, spec traffic.ClientSpec) *Process {
	t.Helper()
	return p.Program(t, programs.ChaosClientProgram, spec)
}
