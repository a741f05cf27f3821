// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// refusedWith begins every answer to a request that is refused.
var refusedWith = regexp.MustCompile(`^HTTP/1\.[01] (4\d\d|5\d\d) `)

// Requests that two readers could understand differently are refused before any byte of them reaches an endpoint.
func TestNoAmbiguousRequestReachesAnEndpoint(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy repairs some of these by default")
	const least = 150
	heads := ambiguousHeads()
	if len(heads) < least {
		t.Fatalf("corpus: got %d cases, want at least %d", len(heads), least)
	}
	// Alone, and right behind a request that is in order.
	const good = "GET /good HTTP/1.1\r\nHost: e2e.test\r\n\r\n"
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		recorder := place.Recorder(t)
		service := harness.Service()
		harness.Start(t, mode, harness.OneCluster(service, recorder.Address), place)
		t.Logf("%d cases", len(heads))
		answers := sendRaw(t, place, service, heads)
		for i, a := range answers {
			if !refusedWith.Match(a.Bytes) || !a.Closed {
				t.Errorf("%q: got answer %q, closed %t, want a refusal and the end", heads[i], firstLine(a.Bytes), a.Closed)
			}
		}
		for _, b := range recorder.Take(t) {
			t.Errorf("reached the endpoint: %q", b)
		}
		var behind []string
		for _, head := range heads {
			behind = append(behind, good+head)
		}
		sendRaw(t, place, service, behind)
		for _, b := range recorder.Take(t) {
			if rest := strings.ReplaceAll(string(b), good, ""); strings.Contains(rest, "case") || strings.Contains(rest, "smuggled") {
				t.Errorf("behind a good request: reached the endpoint: %q", rest)
			}
		}
	})
}

func TestMalformedBodyBecomesNoRequest(t *testing.T) {
	harness.Beside(t)
	cases := malformedBodies()
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		recorder := place.Recorder(t)
		service := harness.Service()
		harness.Start(t, mode, harness.OneCluster(service, recorder.Address), place)
		for i, a := range sendRaw(t, place, service, cases) {
			// The endpoint may have answered the head.
			if !a.Closed {
				t.Errorf("%q: got answer %q, want the end", cases[i], firstLine(a.Bytes))
			}
		}
		for _, b := range recorder.Take(t) {
			if bytes.Contains(b, []byte("/smuggled")) {
				t.Errorf("reached the endpoint: %q", b)
			}
		}
	})
}

func sendRaw(t *testing.T, place *harness.Place, service netip.AddrPort, sends []string) []programs.RawAnswer {
	t.Helper()
	var raw []programs.RawSend
	for _, s := range sends {
		raw = append(raw, programs.RawSend{Address: service.String(), Bytes: []byte(s)})
	}
	answers := runRaw(t, place, time.Second, raw...)
	for i, a := range answers {
		if a.Error != "" {
			t.Fatalf("%q: %s", sends[i], a.Error)
		}
	}
	return answers
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\r\n")
	return line
}
