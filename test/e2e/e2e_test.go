// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the built binary from outside: real servers, real clients,
// a real kernel. It needs root. See package harness for the environment.
package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m))
}

// origins starts one origin server per identity.
func origins(t *testing.T, place *harness.Place, identities ...string) (servers []*harness.Origin, addresses []netip.AddrPort) {
	t.Helper()
	for _, identity := range identities {
		o := place.Origin(t, identity)
		servers, addresses = append(servers, o), append(addresses, o.Address)
	}
	return servers, addresses
}

// nginxes starts one nginx per identity.
func nginxes(t *testing.T, place *harness.Place, identities ...string) (servers []*harness.RunningNginx, addresses []netip.AddrPort) {
	t.Helper()
	for _, identity := range identities {
		n := place.Nginx(t, harness.Nginx{Identity: identity})
		servers, addresses = append(servers, n), append(addresses, n.Address)
	}
	return servers, addresses
}

// runLoad runs a load of a fixed number of requests to its end.
func runLoad(t *testing.T, place *harness.Place, spec programs.LoadSpec) programs.LoadReport {
	t.Helper()
	var report programs.LoadReport
	place.Program(t, programs.LoadProgram, spec).Next(t, &report)
	return report
}

// requireClean fails when any request was not answered with 200.
func requireClean(t *testing.T, report programs.LoadReport) {
	t.Helper()
	if report.Failed > 0 {
		t.Errorf("%d of %d requests failed, first: %v", report.Failed, report.Total, report.Failures[0])
	}
}

// runRaw makes connections of raw bytes, many at once. Each ends when nothing has come for so long.
func runRaw(t *testing.T, place *harness.Place, quiet time.Duration, sends ...programs.RawSend) []programs.RawAnswer {
	t.Helper()
	return playRaw(t, place, programs.RawSpec{Sends: sends, Quiet: quiet})
}

// runAnswered does it where each connection is answered, or closed: an answer may take long to begin, and then comes in one piece.
func runAnswered(t *testing.T, place *harness.Place, sends ...programs.RawSend) []programs.RawAnswer {
	t.Helper()
	return playRaw(t, place, programs.RawSpec{Sends: sends, Patience: faultTimeout, Quiet: 500 * time.Millisecond})
}

func playRaw(t *testing.T, place *harness.Place, spec programs.RawSpec) []programs.RawAnswer {
	t.Helper()
	spec.Concurrency = 128
	var report programs.RawReport
	place.Program(t, programs.RawProgram, spec).Next(t, &report)
	return report.Answers
}

// runExchange does a scripted exchange to its end.
func runExchange(t *testing.T, place *harness.Place, service netip.AddrPort, timeout time.Duration, steps ...programs.Step) programs.ExchangeReport {
	t.Helper()
	var report programs.ExchangeReport
	place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
		Address: service.String(), Steps: steps, Timeout: timeout,
	}).Next(t, &report)
	return report
}

// get is a request for a path.
func get(path string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: e2e.test\r\n\r\n", path)
}

// getAndReceive is one complete exchange.
func getAndReceive(path string) []programs.Step {
	return []programs.Step{{Send: get(path)}, {Receive: true}}
}

// requireStatus fails unless the exchange went through with these statuses.
func requireStatus(t *testing.T, report programs.ExchangeReport, want ...int) {
	t.Helper()
	var got []int
	for _, r := range report.Replies {
		got = append(got, r.Status)
	}
	if report.Error != "" || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exchange: got statuses %v and error %q, want %v", got, report.Error, want)
	}
}
