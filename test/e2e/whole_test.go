// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// exchanges are those of a test that decides what happens before what: a client, an endpoint, and XLB between them.
type exchanges struct {
	client, server *harness.Puppet
	balancer       *harness.Balancer
	service        string
}

// forFastExchanges runs a test on one host and between two.
func forFastExchanges(t *testing.T, test func(t *testing.T, e exchanges)) {
	t.Helper()
	requireFastPath(t)
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) { test(t, newExchanges(t, topology)) })
	}
}

// requireFastPath leaves a test that is of i-socks to kernels that have any: a kernel that is known to must (harness.FastPath).
func requireFastPath(t *testing.T) {
	t.Helper()
	harness.OnlyXLB(t, "it is of i-socks")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel of 6.12 or newer for the fast path")
	}
}

func newExchanges(t *testing.T, topology topology) exchanges {
	t.Helper()
	clients, servers := topology.places(t)
	return exchangesBetween(t, clients, servers, harness.Mode{Fast: true})
}

// exchangesBetween are exchanges of clients and servers that are there already.
func exchangesBetween(t *testing.T, clients, servers *harness.Place, mode harness.Mode) exchanges {
	t.Helper()
	service, server := harness.Service(), servers.Puppet(t)
	balancer := harness.Start(t, mode, harness.OneCluster(service, server.Address), clients)
	return exchanges{clients.Puppet(t), server, balancer, service.String()}
}

// ask opens a connection and sends a request on it, and returns both ends when the endpoint has received its last bytes.
func (e *exchanges) ask(t *testing.T, request, last string) (here, there int) {
	t.Helper()
	here = e.client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: e.service}).Conn
	say(t, e.client, here, request)
	return here, heard(t, e.server, last)
}

// answer sends a response, or a part of one, and waits until the client has received its last bytes.
func (e *exchanges) answer(t *testing.T, there int, response, last string) {
	t.Helper()
	say(t, e.server, there, response)
	heard(t, e.client, last)
}

// requireElsewhere has another client ask, and fails if its request comes over a connection that is not free.
func (e *exchanges) requireElsewhere(t *testing.T, taken int, why string) {
	t.Helper()
	_, there := e.ask(t, get("/next"), "\r\n\r\n")
	if there == taken {
		violation.Errorf(t, "the next client's request came over a connection on which %s", why)
		t.FailNow()
	}
	e.answer(t, there, okHead+"Content-Length: 4\r\n\r\nnext", "next")
}

const okHead = "HTTP/1.1 200 OK\r\n"

// A message ends with the last byte that its length counts. Until then its connection serves nobody else, although all other bytes have
// arrived, and the other message of the exchange is whole.
func TestConnectionServesNobodyElseBeforeTheLastByte(t *testing.T) {
	forFastExchanges(t, func(t *testing.T, e exchanges) {
		_, there := e.ask(t, get("/response"), "\r\n\r\n")
		e.answer(t, there, okHead+"Content-Length: 10\r\n\r\n012345678", "012345678")
		e.requireElsewhere(t, there, "the last byte of a response is to come")
		e.answer(t, there, "9", "9")

		here, there := e.ask(t, "POST /request HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 10\r\n\r\n012345678", "012345678")
		e.answer(t, there, okHead+"Content-Length: 5\r\n\r\nearly", "early")
		e.requireElsewhere(t, there, "the last byte of a request is to come")
		say(t, e.client, here, "9")
		heard(t, e.server, "9")
	})
}

// A client leaves while its request, or the response to it, is under way. What the endpoint still reads, or still sends, on that connection
// belongs to the message that was cut.
func TestConnectionOfACutMessageServesNobodyElse(t *testing.T) {
	const head = "POST /cut HTTP/1.1\r\nHost: e2e.test\r\n"
	forFastExchanges(t, func(t *testing.T, e exchanges) {
		leaves := func(here int) {
			e.client.Pull(t, programs.Pull{Do: programs.PuppetClose, Conn: here})
			harness.Eventually(t, patience, "the lease has ended", func() bool { return e.balancer.Metric(t, "xlb_leases_active") == 0 })
		}
		here, there := e.ask(t, get("/cut"), "\r\n\r\n")
		e.answer(t, there, okHead+"Content-Length: 20\r\n\r\n0123456789", "0123456789")
		leaves(here)
		e.requireElsewhere(t, there, "a response was cut")

		here, there = e.ask(t, head+"Content-Length: 20\r\n\r\n0123456789", "0123456789")
		leaves(here)
		e.requireElsewhere(t, there, "a request was cut")

		here, there = e.ask(t, head+"Transfer-Encoding: chunked\r\n\r\na\r\n01234", "01234")
		leaves(here)
		e.requireElsewhere(t, there, "a chunked request was cut")
	})
}
