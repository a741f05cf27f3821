// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// What the chaos run has found, each as small as it can be.

// RFC 9112 section 6.3: a response to HEAD ends with its head. What comes behind is taken for the next response.
func TestLocalReplyToHEADHasNoBody(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		request := []byte("HEAD /hangup HTTP/1.1\r\nHost: e2e.test\r\n\r\n")
		// The answer comes in its time. A body would come with it.
		spec := programs.RawSpec{Sends: []programs.RawSend{{Address: service.String(), Bytes: request}}, Patience: faultTimeout, Quiet: time.Second}
		got := playRaw(t, place, spec)[0].Bytes
		head, rest, whole := bytes.Cut(got, []byte("\r\n\r\n"))
		if !whole || !bytes.HasPrefix(head, []byte("HTTP/1.1 503 ")) || len(rest) > 0 {
			t.Errorf("answer to HEAD: got %q, want the head of a 503 alone", got)
		}
	})
}

// The rest of the request can never come: neither client nor endpoint may wait for it.
func TestClientThatHalfClosesInMidRequestIsLetGo(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, balancer, service := faulty(t, mode)
		report := runExchange(t, place, service, faultTimeout,
			programs.Step{Send: "POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 10\r\n\r\nabc"},
			programs.Step{HalfClose: true}, programs.Step{End: true})
		if report.Timeout {
			t.Errorf("the client still waits after %v: %s", faultTimeout, report.Error)
		}
		harness.Eventually(t, await.Patience, "no lease is active", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0
		})
	})
}

// An endpoint that closes without an answer may have done what was asked. Envoy does not ask again without a retry policy, nor
// does the kernel.
func TestRequestWithoutAnAnswerIsNotRepeated(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := origins(t, place, "server")
		harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		// A head in two writes goes to the slow path. The first request opens the connection that the second one uses.
		var steps []programs.Step
		for _, path := range []string{"/ok", "/hangup"} {
			steps = append(steps, programs.Step{Send: get(path)[:5]}, programs.Step{Send: get(path)[5:]}, programs.Step{Receive: true})
		}
		requireStatus(t, runExchange(t, place, service, faultTimeout, steps...), 200, 503)
		if got := servers[0].State(t).Requests; got != 2 {
			t.Errorf("requests at the endpoint: got %d, want 2", got)
		}
	})
}

// The answer to a request that is sent before the one before has failed must not be taken for that one's, nor for the rest of it.
func TestAnswerToPipelinedRequestStaysBehindTheFailureBeforeIt(t *testing.T) {
	harness.Beside(t)
	const rounds = 20
	hosts := []struct {
		name   string
		remote bool
	}{{"same host", false}, {"two hosts", true}}
	for _, host := range hosts {
		t.Run(host.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := harness.TwoHosts(t)
				if !host.remote {
					servers = clients
				}
				service := harness.Service()
				_, addresses := origins(t, servers, "server")
				harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
				for range rounds {
					requireNoneBehindBroken(t, pipelined(t, clients, service, "/reset?seed=1&size=2000&framing=length"))
					requireFailureFirst(t, pipelined(t, clients, service, "/hangup"))
				}
			})
		})
	}
}

// A response that goes on through the daemon is still to come when the next request arrives there.
func TestAnswerToPipelinedRequestStaysBehindASpilledResponse(t *testing.T) {
	harness.Beside(t)
	const rounds, size = 1000, 500
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		service := harness.Service()
		_, addresses := origins(t, servers, "server")
		harness.Start(t, mode, harness.OneCluster(service, addresses...), clients)
		var steps []programs.Step
		for range rounds {
			// Chunked, from another host: it spills.
			steps = append(steps, programs.Step{Send: get("/body?seed=1&size=500&framing=chunked")}, programs.Step{Send: get("/ok")},
				programs.Step{Receive: true}, programs.Step{Receive: true})
		}
		report := runExchange(t, clients, service, 6*faultTimeout, steps...)
		if report.Error != "" {
			t.Error(report.Error)
		}
		for i, r := range report.Replies {
			if want := []int{size, len("server")}[i%2]; r.Size != want {
				t.Fatalf("answer %d of %d: got %d bytes, want %d", i, 2*rounds, r.Size, want)
			}
		}
	})
}

// pipelined sends a request that fails, then another in a send of its own, and receives both answers if they come.
func pipelined(t *testing.T, place *harness.Place, service netip.AddrPort, failing string) []programs.Reply {
	t.Helper()
	report := runExchange(t, place, service, faultTimeout,
		programs.Step{Send: get(failing)}, programs.Step{Send: get("/ok")}, programs.Step{Receive: true}, programs.Step{Receive: true})
	if report.Timeout {
		t.Errorf("%s, then /ok: the client hangs: %s", failing, report.Error)
	}
	return report.Replies
}

// requireNoneBehindBroken fails when half of a body goes on with another response.
func requireNoneBehindBroken(t *testing.T, replies []programs.Reply) {
	t.Helper()
	for _, r := range replies {
		if r.Size > 1000 {
			_, behind, _ := strings.Cut(r.Body, "HTTP/1.1")
			violation.Errorf(t, "a body of which 1000 bytes were sent: got %d bytes, and among them %q", r.Size, behind)
		}
	}
}

// requireFailureFirst fails when the second answer comes in place of the first.
func requireFailureFirst(t *testing.T, replies []programs.Reply) {
	t.Helper()
	if len(replies) > 0 && replies[0].Status != http.StatusServiceUnavailable {
		t.Fatalf("answer to the request that failed: got %d %q", replies[0].Status, replies[0].Body)
	}
}
