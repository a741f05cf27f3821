// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// idlers are connections that hold little memory. Each has two sockets, which make the share of each socket of the machine smaller.
const idlers = 1000

// idle opens them, until the end of the test.
func idle(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for range idlers {
		for _, open := range []func() (net.Conn, error){
			func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }, listener.Accept,
		} {
			conn, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			// As long as it lies there TCP holds memory, and the pressure does not end.
			if _, err := conn.Write([]byte{'x'}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// squeezeToShare has TCP of the whole machine under pressure, with so many pages for each of its sockets, and far from its limit.
func squeezeToShare(t *testing.T, place *harness.Place, pages int) (relax func()) {
	t.Helper()
	return squeeze(t, place, int64(harness.TCPSockets(t)*pages))
}

// chunkedRequest is a whole one, with a body of so many bytes in one chunk.
func chunkedRequest(size int) string {
	return fmt.Sprintf("POST /body?size=0&seed=1 HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		size, strings.Repeat("x", size))
}

func lengthRequest(size int) string {
	return fmt.Sprintf("POST /body?size=0&seed=1 HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
}

// Under pressure the kernel gives a receiver on this host its share and no more. A request that is longer is left to TCP, whole: what the kernel has cut
// of a chunked one cannot be sent on, and its client would be refused, or reset, for the memory that others have.
func TestPressureOnTCPCutsNoRequest(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "it is about what the kernel serves")
	const share, size, requests = 20, 200_000, 20
	for name, request := range map[string]string{"length": lengthRequest(size), "chunked": chunkedRequest(size)} {
		t.Run(name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place := harness.SameHost(t)
				balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
				requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 4, Requests: 50}))
				idle(t)
				relax := squeezeToShare(t, place, share)
				defer relax()
				ask := func() (report programs.ExchangeReport) {
					place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
						Address: service, Steps: []programs.Step{{Send: request}, {Receive: true}}, Timeout: await.Patience,
					}).Next(t, &report)
					return report
				}
				// The kernel says that memory is short when it first refuses some: to this one, which it may cut.
				ask()
				before, failed := balancer.Metric(t, "xlb_guard_total", `what="cut"`), 0
				for range requests {
					if report := ask(); len(report.Replies) != 1 || report.Replies[0].Status != 200 {
						failed++
						t.Logf("answer: %+v", report)
					}
				}
				if failed > 0 {
					t.Errorf("%d of %d requests of %d bytes have failed where each socket may have %d pages", failed, requests, size, share)
				}
				if cut := balancer.Metric(t, "xlb_guard_total", `what="cut"`) - before; cut > 0 {
					t.Errorf("the kernel has cut %v of %d requests", cut, requests)
				}
			})
		})
	}
}

// A receiver that has no more memory under pressure has a request cut: see requireRestStaysItsClients.
func TestPressureOnTCPMixesNoRequests(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "it is about what the kernel serves")
	const share, size = 20, 150_000
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		server := place.Puppet(t)
		requireRestStaysItsClients(t, mode, place, server, size, func() (relax func()) {
			idle(t)
			return squeezeToShare(t, place, share)
		})
	})
}

// An i-sock that has less memory under pressure than a request may take is well: it waits for the next request, and is not closed.
func TestPressureOnTCPClosesNoPooledConnection(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "Envoy has no i-socks")
	// More than NARROW_ROOM, and less than what request_limit costs on a wire of Ethernet's segments.
	const share, requests = 80, 20
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, clients, servers)
		requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: service, Connections: 4, Requests: 50}))
		idle(t)
		relax := squeezeToShare(t, clients, share)
		defer relax()
		for range requests {
			var report programs.ExchangeReport
			clients.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
				Address: service, Steps: []programs.Step{{Send: chunkedRequest(10)}, {Receive: true}}, Timeout: await.Patience,
			}).Next(t, &report)
			requireStatus(t, report, 200)
		}
		var broken uint64
		for _, e := range balancer.Endpoints(t) {
			broken += e.Broken
		}
		if broken > 0 {
			t.Errorf("%d i-socks were closed by %d small requests", broken, requests)
		}
	})
}
