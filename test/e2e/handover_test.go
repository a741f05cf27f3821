// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

var earlyPairs = flag.Int("early.pairs", 200, "how many bodies are refused before they are read, in each kind of run")

// What a server does that refuses a request by its head: it answers by HTTP/1.0, closes, and reads nothing of the body. The body's rest
// comes to the daemon, which is about to give that lease up. It holds requests that nobody has sent.
func TestRestOfARefusedBodyIsNoRequest(t *testing.T) {
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, server := harness.Service(), servers.StockServer(t)
		harness.Start(t, mode, harness.OneCluster(service, server.Address), clients)
		got := clients.StockClient(t, service, *earlyPairs).StockCounts(t, time.Hour)
		t.Logf("%+v", got)
		executed, unsent := server.Unsent(t)
		if executed < 2 {
			t.Errorf("the server has executed %d requests: the test says nothing", executed)
		}
		if len(unsent) > 0 {
			violation.Errorf(t, "requests were executed that nobody has sent: %v", unsent)
		}
		if got.Wrong > 0 {
			violation.Errorf(t, "%d requests got an answer to what nobody asked", got.Wrong)
		}
		if got.Reset > 0 {
			t.Errorf("%d requests got no answer: %q", got.Reset, got.Resets)
		}
	})
}

// A program that declines bytes says what they are in a map, which may be full. The rest of a chunked body that is no chunk, but looks like a
// request, must not be taken for one then.
func TestRestOfABodyIsNoRequestWhereNothingCanBeSaidOfIt(t *testing.T) {
	forFastExchanges(t, func(t *testing.T, e exchanges) {
		here, _ := e.ask(t, "POST /public HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", "some\r\n")
		fillSlowConns(t, e.balancer.PID())
		// The send may fail.
		e.client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: here, Bytes: []byte(get("/private"))})
		seen, ended := "", false
		look := func() bool {
			for _, n := range e.server.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
				seen += string(n.Bytes)
			}
			for _, n := range e.client.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
				ended = ended || n.Ended != ""
			}
			return ended || strings.Contains(seen, "/private")
		}
		harness.Eventually(t, patience, "the client's connection has ended", look)
		if look(); strings.Contains(seen, "/private") {
			violation.Errorf(t, "the rest of a body was executed as a request: %q", seen)
		}
		if e.balancer.Metric(t, "xlb_handovers_total", `reason="no_state"`) == 0 {
			t.Error("there was room for the state of the connection: the test says nothing")
		}
	})
}

// An answer that comes before the end of its request, and in pieces, goes through the daemon. Behind it the client gets no second one, though the
// rest of its request is none.
func TestAnswerThatWasForwardedIsTheOnlyOne(t *testing.T) {
	forFastExchanges(t, func(t *testing.T, e exchanges) {
		here, there := e.ask(t, "POST /public HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", "some\r\n")
		say(t, e.server, there, okHead+"Content-Le")
		harness.Eventually(t, patience, "the response goes through the daemon", func() bool { return e.balancer.Metric(t, "xlb_spills_total") > 0 })
		e.answer(t, there, "ngth: 5\r\n\r\nearly", "early")
		say(t, e.client, here, get("/private"))
		got, ended := "", false
		harness.Eventually(t, patience, "the client's connection has ended", func() bool {
			for _, n := range e.client.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
				got += string(n.Bytes)
				ended = ended || n.Ended != ""
			}
			return ended
		})
		if got != "" {
			t.Errorf("behind the answer to its request the client got %q", got)
		}
	})
}

// fillSlowConns leaves no room in a daemon's map of the connections that are on the slow path.
func fillSlowConns(t *testing.T, daemon int) {
	t.Helper()
	m := mapOf(t, daemon, "slow_conns")
	keys := make([]maps.CookieKey, m.MaxEntries())
	for i := range keys {
		// No socket has such a number.
		keys[i] = maps.CookieKeyOf(1<<62 + uint64(i))
	}
	n, err := m.BatchUpdate(keys, make([]maps.SlowConn, len(keys)), nil)
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the map: %d entries, %v", n, err)
	}
}

// mapOf is the map of that name that a process has open.
func mapOf(t *testing.T, pid int, name string) *ebpf.Map {
	t.Helper()
	infos, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		content, err := os.ReadFile(info)
		if err != nil {
			continue // closed meanwhile
		}
		found := mapID.FindSubmatch(content)
		if found == nil {
			continue
		}
		id, err := strconv.ParseUint(string(found[1]), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if i, err := m.Info(); err == nil && i.Name == name {
			return m
		}
	}
	t.Fatalf("process %d has no map %s", pid, name)
	return nil
}

var mapID = regexp.MustCompile(`(?m)^map_id:\s*(\d+)$`)

// A server closes between the program that has chosen its connection and the kernel's moving the request there: the send fails, by ECONNRESET or
// EPIPE, on a connection that is well. Some libraries (urllib3) take no notice, and wait for the answer.
func TestRequestThatCouldNotBeSentIsAnswered(t *testing.T) {
	const rounds = 20
	requireFastPath(t)
	e := newExchanges(t, topology{twoHosts, harness.TwoHosts})
	server, balancer := e.server, e.balancer
	held := 0
	for range rounds {
		here, there := e.ask(t, get("/before"), "\r\n\r\n")
		e.answer(t, there, okHead+"Content-Length: 4\r\n\r\nfine", "fine")
		g, err := traffic.TakeGrip(balancer.PID(), server.Address.Port())
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			say(t, e.client, here, get("/now"))
		}()
		if traffic.AwaitLocked(e.client.PID()) {
			held++
		}
		server.Pull(t, programs.Pull{Do: programs.PuppetReset, Conn: there})
		if err := g.Release(); err != nil {
			t.Fatal(err)
		}
		<-sent
		harness.Eventually(t, patience, "the client hears of its request", func() bool {
			for _, n := range server.Pull(t, programs.Pull{Do: programs.PuppetLook}).News {
				if strings.Contains(string(n.Bytes), "/now") && n.Ended == "" {
					// It was sent, and then again.
					say(t, server, n.Conn, okHead+"Content-Length: 4\r\n\r\nfine")
				}
			}
			return slices.ContainsFunc(e.client.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News,
				func(n programs.News) bool { return n.Conn == here })
		})
	}
	if held < rounds/2 {
		t.Errorf("only %d of %d requests were held", held, rounds)
	}
}
