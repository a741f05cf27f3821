// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// redirectedTo is the status of the answer to a request, and where it leads the client; empty: nowhere.
func redirectedTo(head string) (status, location string) {
	line, rest, _ := strings.Cut(head, "\r\n")
	for field := range strings.SplitSeq(rest, "\r\n") {
		if name, value, _ := strings.Cut(field, ":"); strings.EqualFold(name, "location") {
			location = strings.TrimSpace(value)
		}
	}
	_, status, _ = strings.Cut(line, " ")
	return status, location
}

// leavesHost reports whether a client that is at a host takes a Location for another's, as browsers read it: RFC 3986 section 4.2, and "\" as "/"; they drop tabs.
func leavesHost(location string) bool {
	location = strings.NewReplacer(`\`, "/", "\t", "").Replace(location)
	return !strings.HasPrefix(location, "/") || strings.HasPrefix(location, "//")
}

// A path that has escaped slashes is answered as by Envoy, but that the redirect never leads to another host: Envoy sends a client of "/%2fevil.example" to "//evil.example".
func TestRedirectsOfEscapedSlashesAreEnvoysAndStayOnTheHost(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	_, endpoints := origins(t, place, "one")
	targets := []string{
		"/a%2fb", "/%2fevil.example", "/%2Fevil.example/..%2f", "//evil.example%2f", "//evil.example", `/\evil.example`, "/%5cevil.example", "/%5C%5cevil.example",
		"/%2f%5cevil.example?a=//b", "/%2f/evil.example", "/.%2f%2fevil.example", "/a/..%2f%2fevil.example", "/%2f%09/evil.example", "/%252fevil.example", "/%2f?//evil.example",
		"/%2f@evil.example", "/%2f%2f%2fevil.example", "/..%2f%5c..%2fevil.example",
	}
	led := 0
	for bits := range 4 {
		manager := map[string]any{
			"path_with_escaped_slashes_action": "UNESCAPE_AND_REDIRECT", "normalize_path": bits&1 != 0, "merge_slashes": bits&2 != 0,
		}
		t.Run(fmt.Sprintf("normalize %v, merge %v", bits&1 != 0, bits&2 != 0), func(t *testing.T) {
			config := func() (harness.Config, netip.AddrPort) {
				service := harness.Service()
				out := harness.OneCluster(service, endpoints...)
				out.Listeners[0].Manager = manager
				return out, service
			}
			own, service := config()
			beside, peer := config()
			harness.Start(t, harness.Modes(t)[0], own, place)
			harness.StartEnvoy(t, beside, place)
			ours, envoys := askFor(t, place, service, targets), askFor(t, place, peer, targets)
			for i, target := range targets {
				status, location := redirectedTo(ours[i])
				envoyStatus, envoyLocation := redirectedTo(envoys[i])
				want := envoyLocation
				if envoyLocation != "" && leavesHost(envoyLocation) {
					led++
					want = rewrite.OnThisHost(envoyLocation)
				}
				if status != envoyStatus || location != want || location != "" && leavesHost(location) {
					t.Errorf("%s: got %q to %q, and Envoy %q to %q", target, status, location, envoyStatus, envoyLocation)
				}
			}
		})
	}
	t.Logf("Envoy sends clients to another host for %d targets", led)
}

// askFor asks for targets, and returns the answers as they come.
func askFor(t *testing.T, place *harness.Place, service netip.AddrPort, targets []string) (out []string) {
	t.Helper()
	var sends []programs.RawSend
	for _, target := range targets {
		sends = append(sends, programs.RawSend{Address: service.String(), Bytes: []byte("GET " + target + " HTTP/1.1\r\nHost: e2e.test\r\nConnection: close\r\n\r\n")})
	}
	for _, a := range runAnswered(t, place, sends...) {
		out = append(out, string(a.Bytes))
	}
	return out
}
