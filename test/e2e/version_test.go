// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// Whether HTTP/1.0 is served, and what a request without a host gets, is as in Envoy.
func TestVersionsAsEnvoy(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	_, endpoints := origins(t, place, "one")
	heads := []string{
		"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"GET http://a.test/ HTTP/1.0\r\n\r\n",
		"HEAD / HTTP/1.0\r\nHost: a.test\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nok",
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	}
	// Envoy serves these where it serves HTTP/1.0. XLB never does.
	tooOld := []string{
		"GET /\r\n\r\n",
		"GET /\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/0.9\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/0.8\r\nHost: a.test\r\n\r\n",
	}
	for name, options := range map[string]map[string]any{
		"by default":        {},
		"accepted":          {"accept_http_10": true},
		"default host":      {"accept_http_10": true, "default_host_for_http_10": "old.test"},
		"default host only": {"default_host_for_http_10": "old.test"},
	} {
		t.Run(name, func(t *testing.T) {
			config := func(service netip.AddrPort) harness.Config {
				out := harness.OneCluster(service, endpoints...)
				out.Listeners[0].Manager = map[string]any{"http_protocol_options": options}
				return out
			}
			service, beside := harness.Service(), harness.Service()
			harness.Start(t, harness.Modes(t)[0], config(service), place)
			harness.StartEnvoy(t, config(beside), place)
			answers := map[netip.AddrPort][]string{}
			asked := slices.Clone(heads)
			if options["accept_http_10"] == nil {
				asked = append(asked, tooOld...)
			}
			for _, head := range asked {
				for _, at := range []netip.AddrPort{service, beside} {
					answers[at] = append(answers[at], fmt.Sprintf("%q: %s", head, askVersion(t, place, at, head)))
				}
			}
			if diff := cmp.Diff(answers[beside], answers[service]); diff != "" {
				t.Errorf("-Envoy +XLB:\n%s", diff)
			}
		})
	}
}

// askVersion is the status of an answer, and whether the connection stays.
func askVersion(t *testing.T, place *harness.Place, service netip.AddrPort, head string) string {
	t.Helper()
	report := runExchange(t, place, service, 2*time.Second, programs.Step{Send: head}, programs.Step{Receive: true}, programs.Step{End: true})
	if len(report.Replies) != 1 {
		return "no answer: " + report.Error
	}
	return fmt.Sprintf("%d, closed %t", report.Replies[0].Status, report.Error == "")
}
