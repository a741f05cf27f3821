// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

// HostileServer starts a server of the hostile machine; with no address it takes a free one of the place.
func (p *Place) HostileServer(t testing.TB, spec traffic.ServerSpec) (*Process, netip.AddrPort) {
	t.Helper()
	if spec.Address == "" {
		spec.Address = p.anyPort()
	}
	return p.listening(t, programs.HostileServerProgram, spec)
}

// shownViolations bounds how many violations one test prints.
const shownViolations = 5

// ReportViolations fails the test for what the hostile machine's clients and servers have written down.
func ReportViolations(t testing.TB, all []traffic.Violation) {
	t.Helper()
	for i, v := range all {
		switch {
		case i == shownViolations:
			t.Errorf("%d violations in all", len(all))
			return
		case v.Timed && v.Foreign == "":
			t.Error(v.String())
		default:
			violation.Errorf(t, "%s", v.String())
		}
	}
}

// HostileClients starts a process of clients of the hostile machine.
func (p *Place) HostileClients(t testing.TB, spec traffic.ClientSpec) *Process {
	t.Helper()
	return p.Program(t, programs.HostileClientsProgram, spec)
}
