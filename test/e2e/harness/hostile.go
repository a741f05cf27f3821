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

// shownViolations bounds how many violations of each kind one test prints.
const shownViolations = 5

// ReportViolations fails the test for what the hostile machine's clients and servers have written down. What only took too long is no violation
// to package violation: other work on the machine may be the reason.
func ReportViolations(t testing.TB, all []traffic.Violation) {
	t.Helper()
	var wrong, late []traffic.Violation
	for _, v := range all {
		if v.Timed && v.Foreign == "" {
			late = append(late, v)
		} else {
			wrong = append(wrong, v)
		}
	}
	for _, v := range wrong[:min(len(wrong), shownViolations)] {
		violation.Errorf(t, "%s", v.String())
	}
	for _, v := range late[:min(len(late), shownViolations)] {
		t.Errorf("%s", v.String())
	}
	if len(wrong) > shownViolations || len(late) > shownViolations {
		t.Errorf("%d violations, and %d exchanges that took too long", len(wrong), len(late))
	}
}

// HostileClients starts a process of clients of the hostile machine.
func (p *Place) HostileClients(t testing.TB, spec traffic.ClientSpec) *Process {
	t.Helper()
	return p.Program(t, programs.HostileClientsProgram, spec)
}
