// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

// moment is how long something that must not happen is waited for.
const moment = 300 * time.Millisecond

// ear collects what a puppet's connections have received.
type ear struct {
	t      *testing.T
	puppet *harness.Puppet
	got    map[int]string
}

func newEar(t *testing.T, p *harness.Puppet) *ear {
	return &ear{t: t, puppet: p, got: map[int]string{}}
}

// listen takes what has come, or comes within that time.
func (e *ear) listen(within time.Duration) {
	e.t.Helper()
	for _, n := range e.puppet.Pull(e.t, programs.Pull{Do: programs.PuppetLook, Patience: within}).News {
		e.got[n.Conn] += string(n.Bytes)
		if n.Ended != "" {
			e.got[n.Conn] += "<" + n.Ended + ">"
		}
	}
}

// hear waits until a connection has received what, and returns its number.
func (e *ear) hear(what string) (conn int) {
	e.t.Helper()
	harness.Eventually(e.t, patience, "to hear "+what, func() bool {
		e.listen(10 * time.Millisecond)
		conn = e.who(what)
		return conn != 0
	})
	return conn
}

// who has received what; 0: nobody.
func (e *ear) who(what string) int {
	for conn, got := range e.got {
		if strings.Contains(got, what) {
			return conn
		}
	}
	return 0
}

func dialService(t *testing.T, p *harness.Puppet, service string) (conn int) {
	t.Helper()
	return p.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service}).Conn
}

const chunkedPost = "POST " + traffic.Prefix + "first HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n"

// A request of which the daemon has sent the end is not answered yet. The next one, on the same connection, waits for its answer.
func TestNextRequestDoesNotOvertakeTheAnswerToOneThatEndedWithTrailers(t *testing.T) {
	suite.Long(t, suite.Slow)
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
		config := publicOnly(service, server.Address)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
		harness.Start(t, mode, config, clients)
		there, here := newEar(t, server), newEar(t, client)
		conn := dialService(t, client, service.String())
		say(t, client, conn, chunkedPost+"5\r\nhello\r\n")
		first := there.hear("hello\r\n")
		say(t, client, conn, "0\r\nX-Trailer: v\r\n\r\n")
		there.hear("0\r\n\r\n")
		// The daemon has yet to offer the connection.
		time.Sleep(50 * time.Millisecond)
		say(t, client, conn, "GET "+traffic.Prefix+"second HTTP/1.1\r\nHost: e2e.test\r\n\r\n")
		there.listen(moment)
		if second := there.who("second HTTP/1.1"); second != 0 {
			violation.Errorf(t, "the second request was sent before the first one was answered: %.300q", there.got[second])
			say(t, server, second, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nthe second")
			here.listen(moment)
		}
		say(t, server, first, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe first")
		here.hear("the first")
		if at := strings.Index(here.got[conn], "the second"); at >= 0 && at < strings.Index(here.got[conn], "the first") {
			violation.Errorf(t, "the answers are in the wrong order: %q", here.got[conn])
		}
	})
}

// An endpoint answers with what is no response before it has the whole request. The client is told so; meanwhile the endpoint may go on to
// read, but what it gets is the request from its beginning on, without a hole.
func TestRequestHasNoHoleWhereItsAnswerIsRefused(t *testing.T) {
	const pieces = 40
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
		config := publicOnly(service, server.Address)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
		harness.Start(t, mode, config, clients)
		there, here := newEar(t, server), newEar(t, client)
		conn := dialService(t, client, service.String())
		sent := chunkedPost
		say(t, client, conn, chunkedPost)
		// More than the kernel moves of a chunked body: the daemon sends the rest.
		for range 5 {
			long := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("l", 64<<10))
			sent += long
			say(t, client, conn, long)
		}
		first := there.hear("POST ")
		harness.Eventually(t, patience, "the long chunks", func() bool {
			there.listen(10 * time.Millisecond)
			return strings.Count(there.got[first], "l") >= 5*64<<10
		})
		say(t, server, first, "HTTP/1.1 200 OK\r\nno field\r\n\r\n")
		here.hear("HTTP/1.1 502")
		for i := range pieces {
			piece := fmt.Sprintf("5\r\n%05d\r\n", i)
			sent += piece
			say(t, client, conn, piece)
		}
		sent += "0\r\n\r\n"
		say(t, client, conn, "0\r\n\r\n")
		harness.Eventually(t, patience, "the endpoint's connection ends", func() bool {
			there.listen(10 * time.Millisecond)
			return strings.Contains(there.got[first], "<")
		})
		got, _, _ := strings.Cut(there.got[first], "<")
		_, got, _ = strings.Cut(got, "\r\n\r\n")
		_, want, _ := strings.Cut(sent, "\r\n\r\n")
		if bodyOfChunks(want)[:len(bodyOfChunks(got))] != bodyOfChunks(got) {
			body := bodyOfChunks(got)
			t.Errorf("the endpoint has got a body with a hole: its end is %q", body[max(0, len(body)-5*pieces):])
		}
	})
}

// bodyOfChunks is the data of a chunked body, as far as that goes.
func bodyOfChunks(b string) string {
	data, _ := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(b)))
	return string(data)
}
