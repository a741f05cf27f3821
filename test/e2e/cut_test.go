// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// The kernel moves of a request what the server's memory allows, and asks the program again about the rest: which is still that client's, though the server has
// answered by then, and though nothing has said before that memory is short: the limit is that of a cgroup above the server's own.
func TestRestOfACutRequestStaysItsClients(t *testing.T) {
	harness.OnlyXLB(t, "it is of requests that the kernel moves")
	const size = 150_000
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		inner := place.TCPMemoryLimitAbove(t, 2*tcpMemoryLimit)
		server := place.Puppet(t)
		enter(t, inner, server)
		balancer := requireRestStaysItsClients(t, mode, place, server, size, func() (relax func()) { return func() {} })
		requireCuts(t, mode, balancer)
	})
}

// The same of a response, of which the client's memory allows a part: the rest follows it.
func TestCutResponseComesWhole(t *testing.T) {
	harness.OnlyXLB(t, "it is of responses that the kernel moves")
	const size = 150_000
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		inner := place.TCPMemoryLimitAbove(t, 2*tcpMemoryLimit)
		server, client := place.Puppet(t), place.Puppet(t)
		enter(t, inner, client)
		balancer := harness.Start(t, mode, harness.OneCluster(service, server.Address), place)
		conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
		client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(get("/"))})
		busy := awaitBytes(t, server, "\r\n\r\n")
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
		server.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: busy, Bytes: []byte(answer)})
		got := ""
		harness.Eventually(t, await.Patience, "the response has come", func() bool {
			for _, n := range client.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
				got += string(n.Bytes)
			}
			_, body, _ := strings.Cut(got, "\r\n\r\n")
			return len(body) >= size
		})
		if _, body, _ := strings.Cut(got, "\r\n\r\n"); body != strings.Repeat("x", size) {
			violation.Errorf(t, "of a body of %d bytes other bytes have come", size)
		}
		requireCuts(t, mode, balancer)
	})
}

// enter moves a puppet into a cgroup. What it connects and accepts from then on is charged there.
func enter(t *testing.T, cgroup string, p *harness.Puppet) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(p.PID())), 0); err != nil {
		t.Fatal(err)
	}
}

// requireCuts fails unless the kernel has cut one message, where it moves any.
func requireCuts(t *testing.T, mode harness.Mode, b *harness.Balancer) {
	t.Helper()
	if cut := b.Metric(t, "xlb_guard_total", `what="cut"`); mode.Fast && cut != 1 {
		t.Errorf("the kernel has cut %v messages; want 1", cut)
	}
}

// requireRestStaysItsClients has a server answer a long request as soon as it begins to come, when squeeze lets the kernel move no more than a part of it. The next
// client's request must not be read as the rest.
func requireRestStaysItsClients(t *testing.T, mode harness.Mode, place *harness.Place, server *harness.Puppet, size int, squeeze func() (relax func())) *harness.Balancer {
	t.Helper()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"
	client, service := place.Puppet(t), harness.Service()
	config := harness.OneCluster(service, server.Address)
	config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
	balancer := harness.Start(t, mode, config, place)
	send := func(conn int, text string) {
		client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(text)})
	}
	dial := func() int {
		return client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
	}
	reply := func(conn int) {
		server.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(answer)})
		awaitBytes(t, client, "whole")
	}
	first, next := dial(), dial()
	send(first, get("/"))
	reply(awaitBytes(t, server, "\r\n\r\n"))
	relax := squeeze()
	defer relax()

	request := lengthRequest(size)
	got := map[int]string{}
	// begun is the connection on which a request has come by now.
	begun := func(line string) (conn int) {
		for _, n := range server.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
			got[n.Conn] += string(n.Bytes)
		}
		for one, text := range got {
			if strings.Contains(text, line) {
				conn = one
			}
		}
		return conn
	}
	send(first, request)
	var busy int
	harness.Eventually(t, await.Patience, "the request has begun to come", func() bool { busy = begun("POST /body"); return busy != 0 })
	reply(busy)
	send(next, get("/next"))
	harness.Eventually(t, await.Patience, "the next client's request has come", func() bool { return begun("GET /next") != 0 })
	if at := strings.Index(got[busy], "GET /next"); at >= 0 && at < len(request) {
		violation.Errorf(t, "of a request of %d bytes %d have come, and behind them another client's request, as a part of its body", len(request), at)
	}
	return balancer
}

// awaitBytes returns the connection on which bytes have come that end so.
func awaitBytes(t *testing.T, p *harness.Puppet, end string) (conn int) {
	t.Helper()
	got := map[int]string{}
	harness.Eventually(t, await.Patience, fmt.Sprintf("%q has come", end), func() bool {
		for _, n := range p.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
			got[n.Conn] += string(n.Bytes)
			if strings.HasSuffix(got[n.Conn], end) {
				conn = n.Conn
			}
		}
		return conn != 0
	})
	return conn
}
