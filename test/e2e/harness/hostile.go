// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// HostileServer starts a server of the hostile machine; with no address it takes a free one of the place.
func (p *Place) HostileServer(t testing.TB, spec traffic.ServerSpec) (*Process, netip.AddrPort) {
	t.Helper()
	if spec.Address == "" {
		spec.Address = p.anyPort()
	}
	return p.listening(t, programs.HostileServerProgram, spec)
}

// HostileClients starts a process of clients of the hostile machine.
func (p *Place) HostileClients(t testing.TB, spec traffic.ClientSpec) *Process {
	t.Helper()
	return p.Program(t, programs.HostileClientsProgram, spec)
}
