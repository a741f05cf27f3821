// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/test/await"
)

// Requests for which there is no room are refused before anything is done for them; afterwards the next
// ones are served.
func TestRequestsAreRefusedWhereTooManyWait(t *testing.T) {
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for readHeadOf(r) != "" {
			_, _ = io.WriteString(conn, ok2)
		}
	})
	f := newFront(t, []netip.AddrPort{endpoint})
	scheduler := shares.NewScheduler(shares.Limits{AtWork: 1})
	f.scheduler.Store(scheduler)
	busy := scheduler.Ticket(shares.Path{2})
	busy.Work()
	got := f.exchange("GET / HTTP/1.1\r\n" + host + "\r\nGET / HTTP/1.1\r\n" + host + "\r\n")
	if n := strings.Count(got, "HTTP/1.1 "); n != 1 || !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.HasSuffix(got, "\r\n\r\nenvoy overloaded") ||
		!strings.Contains(got, "\r\nConnection: close\r\n") {
		t.Errorf("got %q", got)
	}
	if picked, _ := f.balancer.seen(); picked != 0 || f.proxy.Counters().Flag(FlagOverloadManager) != 1 || scheduler.Counts().Refused != 1 {
		t.Errorf("%d endpoints were chosen, %d requests have the flag, scheduler %+v", picked, f.proxy.Counters().Flag(FlagOverloadManager), scheduler.Counts())
	}
	busy.Yield()
	if got := f.exchange("GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"); !strings.HasPrefix(got, okLine) {
		t.Errorf("afterwards: got %q", got)
	}
}

// While one waits, for an endpoint, or for the rest of a head, of a request or of a response, others work.
// No ticket has to be stopped for that.
func TestOthersWorkWhileOneWaits(t *testing.T) {
	held := make(chan struct{})
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if request.URL.Path == "/held" {
				_, _ = io.WriteString(conn, okLine+"Content-Length: 4\r\n\r\nab")
				<-held
				_, _ = io.WriteString(conn, "cd")
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			if request.URL.Path == "/silent" {
				<-held
			}
			_, _ = io.WriteString(conn, ok2)
		}
	})
	f := newFront(t, []netip.AddrPort{endpoint})
	var waiting []net.Conn
	for _, raw := range []string{
		"GET /silent HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n",
		"GET /held HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n",
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 5000\r\nConnection: close\r\n\r\nbeginning",
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhel",
		"GET / HTTP/1.1\r\nHost",
	} {
		conn := f.dial()
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, conn)
	}
	scheduler := f.scheduler.Load()
	await.Quiet(t, func() string {
		if active, c := f.proxy.Counters().Active(), scheduler.Counts(); active != int64(len(waiting)) || c.Tenants > 0 {
			return fmt.Sprintf("%d of %d connections are served, scheduler %+v", active, len(waiting), c)
		}
		return ""
	})
	const others = 50
	before := scheduler.Counts().Ended
	for range others {
		if got := f.exchange("GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"); !strings.HasPrefix(got, okLine) {
			t.Fatalf("got %q", got)
		}
	}
	// On a busy machine a goroutine may stand still while its ticket runs.
	if ended := scheduler.Counts().Ended - before; ended > others/5 {
		t.Errorf("%d tickets had to be stopped for %d requests", ended, others)
	}
	close(held)
	for i, rest := range []string{"", "", strings.Repeat("x", 5000-len("beginning")), "lo\r\n0\r\n\r\n", ": a\r\nConnection: close\r\n\r\n"} {
		if _, err := io.WriteString(waiting[i], rest); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(waiting[i]); err != nil || !strings.HasPrefix(string(got), okLine) {
			t.Errorf("client %d: got %q, error %v", i, got, err)
		}
	}
}

// A match that takes long lets others work in each of its pauses, and learns there that its client has gone.
func TestOthersWorkWhileARouteIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheduler := shares.NewScheduler(shares.Limits{AtWork: 1})
		long, other := scheduler.Ticket(shares.Path{1}), scheduler.Ticket(shares.Path{2})
		table, gone, worked := &model.RouteTable{}, false, false
		x := &exchange{
			downstream: &downstream{ticket: long, session: Session{Gone: func() bool { return gone }}},
			Request:    headers.Request{Table: table},
		}
		x.active = &configuration{match: func(got *model.RouteTable, _ *matcher.Request, pause func() bool) *model.Route {
			if got != table || pause() || !worked {
				t.Errorf("right table: %t; the other has worked: %t", got == table, worked)
			}
			if gone = true; !pause() {
				t.Error("a client has gone, and the match goes on")
			}
			return nil
		}}
		long.Work()
		go func() {
			other.Work()
			worked = true
			other.Yield()
		}()
		synctest.Wait()
		x.find(&matcher.Request{})
		if c := scheduler.Counts(); c.Tenants != 1 || c.Ended != 0 {
			t.Errorf("the match has lost its ticket, or it had to be stopped: %+v", c)
		}
		long.Yield()
		time.Sleep(2 * shares.Quantum) // the watch of the scheduler sees that no ticket waits
	})
}
