// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/test/await"
)

// unhurried has slow requests wait longer than any test: what keeps others out meanwhile keeps them out for good. It is called before begin.
func unhurried(t *testing.T) {
	t.Helper()
	before := limits.Admin
	limits.Admin.Head, limits.Admin.Whole, limits.Admin.Send = time.Hour, time.Hour, time.Hour
	t.Cleanup(func() { limits.Admin = before })
}

// begin serves a handler on an address of its own until the test ends.
func begin(t *testing.T, handler http.Handler, names ...string) (address string) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), l, names, handler, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// send opens a connection and writes on it.
func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// askRaw is what is answered to a request that ends its connection.
func askRaw(t *testing.T, address, text string) string {
	t.Helper()
	c := send(t, address, text)
	patient(t, c)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// patient bounds how long an answer may take.
func patient(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
}

// overHTTP2 speaks HTTP/2 in cleartext.
func overHTTP2(t *testing.T) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// requireStatus asks on a connection of its own.
func requireStatus(t *testing.T, address string, want int) {
	t.Helper()
	client := http.Client{Timeout: await.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != want {
		t.Errorf("got status %d, want %d", r.StatusCode, want)
	}
}

func TestSlowHeadsKeepNobodyOut(t *testing.T) {
	unhurried(t)
	address := begin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 4 * limits.Admin.Connections {
		send(t, address, "GET / HTTP/1.1\r\nHost: localhost")
	}
	requireStatus(t, address, http.StatusOK)
}

// While all connections have requests under way, another waits until the oldest of these has had its time. It costs that one, and no other.
func TestRequestsUnderWayAreNotGivenUpForOthers(t *testing.T) {
	unhurried(t)
	const request = "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	arrived, answer := make(chan struct{}, limits.Admin.Connections), make(chan struct{})
	address := begin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-answer
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	var slow []net.Conn
	first := await.Since(func() {
		for range limits.Admin.Connections {
			slow = append(slow, send(t, address, request))
			await.Next(t, arrived, "a slow request")
		}
	})
	if b := askRaw(t, address, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); b == "" {
		t.Error("one more got no answer")
	}
	first.NoSooner(t, servedTime, "room for one more")
	close(answer)
	for i, c := range slow {
		patient(t, c)
		b, err := io.ReadAll(c)
		if answered, want := err == nil && len(b) > 0, i > 0; answered != want {
			t.Errorf("request %d got %q, %v; answered: want %t", i, b, err, want)
		}
	}
}

// Streams that nobody speaks on, as those of gRPC, and answers that nobody reads, keep out neither who asks whether requests are served nor who counts.
func TestSilentStreamsKeepNobodyOut(t *testing.T) {
	unhurried(t)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "counted\n") })
	mux := http.NewServeMux()
	mux.Handle("/", NewHandler(&state{}, metrics))
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	address := begin(t, mux)
	for i := range 2 * limits.Admin.Connections {
		if i%2 == 0 {
			send(t, address, "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
			continue
		}
		client := &http.Client{Transport: overHTTP2(t)}
		answer, err := client.Get("http://" + address + "/stream")
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { answer.Body.Close() })
	}
	client := http.Client{Timeout: await.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/ready", "/metrics"} {
		answer, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d", path, answer.StatusCode)
		}
	}
}

// alwaysAccepts is a listener to which somebody connects whenever it is asked.
type alwaysAccepts struct{ net.Listener }

func (alwaysAccepts) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	return c, nil
}

// A connection may run out of patience at the moment at which another begins to wait for that: the next one comes in nevertheless.
func TestPatienceThatEndsWhileAnotherBeginsToWait(t *testing.T) {
	r := newConnLimiter(alwaysAccepts{}, 1)
	accepted := make(chan error, 1)
	for i := range 4_000 {
		r.mu.Lock()
		clear(r.conns)
		c, _ := net.Pipe()
		// So the end of its patience is anywhere in the microseconds that follow.
		r.conns[&limitedConn{Conn: c, limiter: r, since: time.Now().Add(-sentTime + time.Duration(5*i)*time.Nanosecond)}] = struct{}{}
		r.mu.Unlock()
		go func() {
			_, err := r.Accept()
			accepted <- err
		}()
		if err := await.Next(t, accepted, "another connection"); err != nil {
			t.Fatal(err)
		}
	}
}

// Fewer readers than there is room for are not cut, however slow they are, and keep nobody out.
func TestSlowReadersAreLeftAlone(t *testing.T) {
	unhurried(t)
	const readers = 200
	body := make([]byte, 4<<20) // more than sockets take
	arrived := make(chan struct{}, readers)
	var cut atomic.Int32
	address := begin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			return
		}
		arrived <- struct{}{}
		if _, err := w.Write(body); err != nil {
			cut.Add(1)
		}
	}))
	for range readers {
		send(t, address, "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	requireStatus(t, address, http.StatusOK)
	if n := cut.Load(); n > 0 {
		t.Errorf("%d readers were cut for a place that was free", n)
	}
	for range readers {
		await.Next(t, arrived, "a reader")
	}
}

// A place is had from who reads nothing before it is had from whose answer is not begun, and to read a little of it, again and again, does not help.
func TestWhoIsClosedForAnother(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	idle := func(age time.Duration) *limitedConn { return &limitedConn{since: now.Add(-age)} }
	waits := func(age time.Duration) *limitedConn { return &limitedConn{serving: 1, since: now.Add(-age)} }
	reads := func(age time.Duration) *limitedConn {
		return &limitedConn{serving: 1, sends: true, since: now.Add(-age)}
	}
	leaves := func(age time.Duration, g *limitedConn) *limitedConn {
		g.chosen = now.Add(-age)
		return g
	}
	for name, c := range map[string]struct {
		conns []*limitedConn // the first is closed
		wait  time.Duration
	}{
		"idle before slow":              {[]*limitedConn{idle(100 * ms), reads(300 * ms), waits(600 * ms)}, 0},
		"slow before one that waits":    {[]*limitedConn{reads(100 * ms), waits(200 * ms), idle(50 * ms)}, 0},
		"the slowest":                   {[]*limitedConn{reads(300 * ms), reads(200 * ms), reads(99 * ms)}, 0},
		"whose time is up first":        {[]*limitedConn{waits(450 * ms), reads(10 * ms), idle(20 * ms)}, 50 * ms},
		"a request has half a second":   {[]*limitedConn{waits(400 * ms)}, 100 * ms},
		"an answer's part has a moment": {[]*limitedConn{reads(40 * ms)}, 60 * ms},
		"who gives way ends an answer":  {[]*limitedConn{idle(30 * ms), leaves(900*ms, reads(10*ms))}, 70 * ms},
		"but in time":                   {[]*limitedConn{leaves(950*ms, reads(10*ms)), idle(30 * ms)}, 50 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			r := newConnLimiter(nil, 1)
			for _, g := range c.conns {
				r.conns[g] = struct{}{}
			}
			if g, wait := r.next(now); g != c.conns[0] || wait != c.wait {
				t.Errorf("got %+v in %v, want %+v in %v", g, wait, c.conns[0], c.wait)
			}
		})
	}
}

// An answer is sent part by part, and less than a part is not told from silence.
func TestPartsOfAnswersAreNoted(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	long := time.Now().Add(-time.Hour)
	g := &limitedConn{Conn: ours, limiter: newConnLimiter(nil, 1), serving: 1, since: long}
	write := func(size int) {
		t.Helper()
		go func() { _, _ = io.CopyN(io.Discard, theirs, int64(size)) }()
		if n, err := g.Write(make([]byte, size)); n != size || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, size, err)
		}
	}
	write(sentBytes - 1)
	if g.sends || !g.since.Equal(long) {
		t.Errorf("less than a part counts as one: %+v", g)
	}
	write(1)
	if !g.sends || g.since.Equal(long) {
		t.Errorf("a part does not count: %+v", g)
	}
	before := g.since
	write(5*sentBytes + 1)
	if g.since.Equal(before) || g.sent != 1 {
		t.Errorf("five parts and a byte: %+v", g)
	}
	g.serve(1)
	if g.sends || g.sent != 0 {
		t.Errorf("another request has the time of the one before: %+v", g)
	}
}
