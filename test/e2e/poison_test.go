// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

var poisonRequests = flag.Int("poison.requests", 400, "how many requests are made of endpoints that say too much, in each kind of run")

// Endpoints answer twice, unasked, too much and too little, beside an honest one, and clients leave in between. Nobody gets an answer that
// is another's: what an endpoint says unasked is nobody's, unless it says so to who asks at this very moment.
func TestNobodyGetsWhatEndpointsSayToOthers(t *testing.T) {
	harness.OnlyXLB(t, "it is of i-socks")
	const clients = 16
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
		var servers []*harness.Process
		var addresses []netip.AddrPort
		for _, spec := range []programs.PoisonerSpec{{Name: "evil-a"}, {Name: "evil-b"}, {Name: "good", Honest: true}} {
			spec.Address = netip.AddrPortFrom(to.Address, 0).String()
			server := to.Program(t, programs.PoisonerProgram, spec)
			var ready programs.PoisonerReport
			server.Next(t, &ready)
			servers, addresses = append(servers, server), append(addresses, netip.MustParseAddrPort(ready.Address))
		}
		service := harness.Service()
		config := harness.OneCluster(service, addresses...)
		// A part of an answer that was not asked for makes the next one wait for its rest.
		config.Listeners[0].Hosts[0].Routes[0].Timeout = time.Second
		balancer := harness.Start(t, mode, config, from)
		var tasters []*harness.Process
		for _, rude := range []bool{false, true} {
			tasters = append(tasters, from.Program(t, programs.TasterProgram, programs.TasterSpec{
				Address: service.String(), Clients: clients / 2, Requests: *poisonRequests / clients, Rude: rude,
			}))
		}
		var sum programs.TasterReport
		for _, p := range tasters {
			var r programs.TasterReport
			p.Next(t, &r)
			sum.Right, sum.Refused, sum.Broken, sum.Left = sum.Right+r.Right, sum.Refused+r.Refused, sum.Broken+r.Broken, sum.Left+r.Left
			sum.Silent, sum.Odd = sum.Silent+r.Silent, append(sum.Odd, r.Odd...)
		}
		seen := poisonSeen(t, servers)
		t.Logf("%d right, %d refused, %d broken, %d given up, %d odd; acts %v",
			sum.Right, sum.Refused, sum.Broken, sum.Left, len(sum.Odd), seen.Acts)
		if sum.Silent > 0 {
			t.Errorf("%d requests got no answer", sum.Silent)
		}
		if n := seen.Acts["wrong body"]; n > 0 {
			violation.Errorf(t, "%d requests reached an endpoint with another's body", n)
		}
		if n := seen.Acts["trailers of a request"]; n > 0 {
			t.Errorf("%d requests reached an endpoint with trailers, which are left out by default", n)
		}
		// What is said on this host has arrived when the endpoint's send returns.
		transit := time.Duration(0)
		if from != to {
			transit = 50 * time.Millisecond
		}
		for _, o := range sum.Odd {
			if problem := poisonProblem(o, &seen, transit); problem != "" {
				t.Errorf("%s: %+v", problem, o)
			}
		}
		fast, slow := balancer.Served(t)
		t.Logf("%.0f fast, %.0f slow", fast, slow)
		harness.Eventually(t, patience, "no lease and no connection is left", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0 && balancer.Metric(t, "xlb_connections_active") == 0
		})
	})
}

// poisonProblem is what is wrong with an odd answer; empty: the endpoint has said something unasked, on the connection that has carried the
// request, too late to be noticed before that was sent. From then on answers may be one too late.
func poisonProblem(o programs.Odd, seen *programs.PoisonerReport, transit time.Duration) string {
	said, latest := false, time.Duration(math.MinInt64)
	for conn, tokens := range seen.Requests {
		at := slices.Index(tokens, o.Token)
		if at < 0 && conn == o.From {
			// The endpoint has closed without reading it.
			at = len(tokens)
		}
		if at < 0 || tokenOf.MatchString(o.Got) && !strings.HasPrefix(o.Got, "extra-"+conn+"-") && !slices.Contains(tokens[:at], o.Got) {
			continue
		}
		for _, s := range seen.Said[conn] {
			said = said || s.Unasked && s.Behind <= at
			if said && s.Behind == at {
				latest = max(latest, time.Duration(s.At-o.Sent))
			}
		}
	}
	switch {
	case !said:
		return "nothing was said unasked on the connection of this request"
	case latest < -transit:
		return fmt.Sprintf("said %v before the request", -latest)
	}
	return ""
}

// tokenOf matches a whole one.
var tokenOf = regexp.MustCompile(`^(t\d+|extra-[a-z.0-9-]+)-\d+$`)

// poisonSeen adds up what servers have seen.
func poisonSeen(t *testing.T, servers []*harness.Process) programs.PoisonerReport {
	t.Helper()
	sum := programs.PoisonerReport{Requests: map[string][]string{}, Said: map[string][]programs.Said{}, Acts: map[string]int{}}
	for _, s := range servers {
		var one programs.PoisonerReport
		s.Ask(t, "report", &one)
		maps.Copy(sum.Requests, one.Requests)
		maps.Copy(sum.Said, one.Said)
		for name, n := range one.Acts {
			sum.Acts[name] += n
		}
	}
	return sum
}
