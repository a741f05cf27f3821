// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/tcptest"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

const ok2 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// randomWrites hides a reader's size and returns it in random pieces.
type randomWrites struct {
	r   io.Reader
	rng *rand.Rand
}

func (w randomWrites) Read(p []byte) (int, error) {
	return w.r.Read(p[:1+w.rng.IntN(len(p))])
}

func pattern(n int64, seed byte) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

func sum(t testing.TB, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Errorf("read body: %v", err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestServeCarriesBodiesOfEverySizeBothWays(t *testing.T) {
	// The endpoint answers with the sum of what it got and a body of that size.
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		if err != nil {
			t.Errorf("endpoint reads: %v", err)
		}
		w.Header().Set("X-Sum", hex.EncodeToString(h.Sum(nil)))
		if r.Header.Get("X-Chunked") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		} else {
			w.(http.Flusher).Flush()
		}
		_, _ = io.Copy(w, pattern(n, 2))
	})
	f := newFront(t, list(endpoint))
	client := f.client()
	for _, size := range []int64{0, 1, 2, 1023, 4096, 4097, 65535, 1 << 20, 64 << 20} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, chunked %v", size, chunked), func(t *testing.T) {
				body := randomWrites{pattern(size, 1), rand.New(rand.NewPCG(1, uint64(size)))}
				r, _ := http.NewRequest(http.MethodPost, "http://a/", body)
				if chunked {
					r.Header.Set("X-Chunked", "1")
				} else {
					r.ContentLength = size
				}
				if size == 0 && !chunked {
					r.Body = http.NoBody
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				if got, want := resp.Header.Get("X-Sum"), sum(t, pattern(size, 1)); got != want {
					t.Errorf("request body: sum %s, want %s", got, want)
				}
				if got, want := sum(t, resp.Body), sum(t, pattern(size, 2)); got != want {
					t.Errorf("response body: sum %s, want %s", got, want)
				}
			})
		}
	}
}

func TestServeReturnsQuietWithExactCounts(t *testing.T) {
	f := newFront(t, list(httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%s %d", r.URL.Path, n)
	})))
	conn := f.dial()
	r := bufio.NewReader(conn)
	// Each batch goes out in one write; all of it must be answered, in order,
	// before the connection counts as quiet.
	batches := [][]string{
		{get},
		{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n", "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"POST /4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "\r\nGET /5 HTTP/1.1\r\nHost: a\r\n\r\n\r\n"},
	}
	wants := [][]string{{"/ 0"}, {"/1 0", "/2 3", "/3 0"}, {"/4 3", "/5 0"}}
	var sent, received uint64
	for i, batch := range batches {
		raw := strings.Join(batch, "")
		_, _ = io.WriteString(conn, raw)
		sent += uint64(len(raw))
		for _, want := range wants[i] {
			head := readHeadOf(r)
			resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), nil)
			if err != nil {
				t.Fatalf("%q: %v", head, err)
			}
			body := make([]byte, resp.ContentLength)
			if _, err := io.ReadFull(r, body); err != nil || string(body) != want {
				t.Fatalf("body %q, %v; want %q", body, err, want)
			}
			received += uint64(len(head) + len(body))
		}
		eventually(t, "all bytes accounted for in a quiet state", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			var total Result
			for _, res := range f.results {
				if !res.Quiet {
					t.Fatalf("result %+v is not quiet", res)
				}
				total.Consumed += res.Consumed
				total.Answered += res.Answered
			}
			return total.Consumed == sent && total.Answered == received
		})
	}
	if r.Buffered() != 0 {
		t.Errorf("%d bytes too many", r.Buffered())
	}
}

func TestServeWritesLocalRepliesAsEnvoy(t *testing.T) {
	tests := []struct {
		name     string
		endpoint func(testing.TB) netip.AddrPort
		request  string
		status   int
		flag     Flag
		body     string
	}{
		{"no route", nil, "GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n", 404, FlagNoRoute, ""},
		{"asterisk", nil, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 404, FlagNoRoute, ""},
		{"no cluster", nil, "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n", 503, FlagNoCluster, ""},
		{"no endpoint", nil, get, 503, FlagNoHealthyUpstream, "no healthy upstream"},
		{"refused", tcptest.Refusing, get, 503, FlagUpstreamConnectFailure, resetBeforeHeaders + "remote connection failure"},
		{"closed before headers", func(t testing.TB) netip.AddrPort { return saying(t, "") }, get, 503, FlagUpstreamTermination, resetBeforeHeaders + "connection termination"},
		{"closed in the head", func(t testing.TB) netip.AddrPort { return saying(t, "HTTP/1.1 200 O") }, get, 503, FlagUpstreamTermination, resetBeforeHeaders + "connection termination"},
		{"garbage", nonsense, get, 502, FlagUpstreamProtocolError, resetBeforeHeaders + "protocol error"},
		{"switch unasked", switching, get, 502, FlagUpstreamProtocolError, resetBeforeHeaders + "protocol error"},
		{"route timeout", silent, get, 504, FlagUpstreamTimeout, "upstream request timeout"},
		{"route timeout after a body", silent, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 504, FlagUpstreamTimeout, "upstream request timeout"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var endpoints []netip.AddrPort
			if tc.endpoint != nil {
				endpoints = list(tc.endpoint(t))
			}
			f := newFront(t, endpoints, routeTimeout(100*time.Millisecond))
			conn := f.dial()
			r := bufio.NewReader(conn)
			for range 2 { // the connection must survive the first
				_, _ = io.WriteString(conn, tc.request)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != tc.status || string(body) != tc.body || resp.Close {
					t.Errorf("got %d %q close %v, want %d %q", resp.StatusCode, body, resp.Close, tc.status, tc.body)
				}
			}
			if n := f.proxy.Counters().Flag(tc.flag); n != 2 {
				t.Errorf("%v counted %d times, want 2", tc.flag, n)
			}
			if picked, outcomes := f.balancer.seen(); picked != len(outcomes) {
				t.Errorf("%d picks, %d outcomes", picked, len(outcomes))
			}
		})
	}
}

func TestServeTimesOutSlowConnect(t *testing.T) {
	f := newFront(t, list(tcptest.Refusing(t)), func(c *Config, _ *model.Route) {
		c.Dial = func(ctx context.Context, _ workload.ID, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.HasSuffix(got, "reset reason: connection timeout") {
		t.Errorf("got %q", got)
	}
}

func TestServeTriesOtherEndpointsWhenConnectFails(t *testing.T) {
	echo := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	f := newFront(t, list(tcptest.Refusing(t), tcptest.Refusing(t), echo))
	got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "hello") {
		t.Errorf("got %q", got)
	}
	picked, outcomes := f.balancer.seen()
	if picked != 3 || len(outcomes) != 3 || !outcomes[0].ConnectFailed || !outcomes[1].ConnectFailed || outcomes[2] != (Outcome{Status: 200}) {
		t.Errorf("picked %d, outcomes %+v", picked, outcomes)
	}
}

func TestServeSendsNoRequestTwice(t *testing.T) {
	// Every connection serves one request and closes when the next one comes, which it may have acted on.
	var connections atomic.Int64
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		connections.Add(1)
		readHeadOf(r)
		_, _ = io.WriteString(conn, ok2)
		_, _ = r.ReadByte()
	})
	f := newFront(t, list(endpoint))
	client := f.client()
	for i, want := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusOK} {
		if i == 1 {
			// The client has its answer a moment before.
			f.awaitIdle(1)
		}
		resp, err := client.Get("http://a/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestServeBreaksOffTruncatedResponses(t *testing.T) {
	tests := []struct{ name, request, response string }{
		{"length", get, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 50000)},
		{"chunks", get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		{"inside a chunk", get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat("x", 100000)},
		{"chunks for 1.0", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			relayed := make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(conn, tc.response)
				<-relayed
			})
			f := newFront(t, list(endpoint))
			conn := f.dial()
			_, _ = io.WriteString(conn, tc.request)
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			close(relayed)
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Error("the truncated body ended cleanly")
			}
			_, outcomes := f.balancer.seen()
			if len(outcomes) != 1 || outcomes[0].Err == nil {
				t.Errorf("outcomes %+v", outcomes)
			}
			if n := f.proxy.Counters().Flag(FlagUpstreamTermination); n != 1 {
				t.Errorf("UC counted %d times", n)
			}
		})
	}
}

func TestServeBreaksOffWhenTimeoutExpiresInBody(t *testing.T) {
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		_, _ = io.Copy(io.Discard, r)
	})
	f := newFront(t, list(endpoint), routeTimeout(time.Second))
	if got := f.exchange(get); !strings.HasSuffix(got, "hello") || strings.Count(got, "HTTP/1.1") != 1 {
		t.Errorf("got %q", got)
	}
	if n := f.proxy.Counters().Flag(FlagUpstreamTimeout); n != 1 {
		t.Errorf("UT counted %d times", n)
	}
}

func TestServeTimesOutSlowClients(t *testing.T) {
	limits := withLimits(Limits{HeadTimeout: 100 * time.Millisecond, StreamIdle: 150 * time.Millisecond})
	echo := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for name, raw := range map[string]string{
		"head": "GET / HTTP/1.1\r\nHo",
		"body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, list(echo), limits)
			if got := f.exchange(raw); !strings.HasPrefix(got, "HTTP/1.1 408 ") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestServeAnswersEarlyAndCloses(t *testing.T) {
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, r)
	})
	f := newFront(t, list(endpoint))
	got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhello")
	want := "HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServeKeepsConnectionWhenUnreadBodyIsInMemory(t *testing.T) {
	f := newFront(t, nil)
	got := f.exchange("POST / HTTP/1.1\r\nHost: nowhere\r\nContent-Length: 5\r\n\r\nhello" +
		"GET / HTTP/1.1\r\nHost: nowhere\r\nConnection: close\r\n\r\n")
	if n := strings.Count(got, "HTTP/1.1 404 "); n != 2 {
		t.Errorf("%d answers in %q, want 2", n, got)
	}
}

func TestServeRefusesMalformedChunks(t *testing.T) {
	whole := make(chan bool, 1)
	endpoint := rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		all, _ := io.ReadAll(r)
		whole <- bytes.HasSuffix(all, []byte("0\r\n\r\n"))
	})
	f := newFront(t, list(endpoint))
	for _, body := range []string{"zz\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\nabc\n0\n\n", "-1\r\n", "fffffffffffffffff\r\n"} {
		got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "Connection: close") {
			t.Errorf("chunks %q: got %q", body, got)
		}
		if <-whole {
			t.Errorf("chunks %q: the endpoint saw a complete body", body)
		}
	}
}

func TestServeCancelsUpstreamWhenClientGoes(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	f := newFront(t, list(httpEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})))
	conn := f.dial()
	_, _ = io.WriteString(conn, get)
	<-began
	_ = conn.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the endpoint's request was not cancelled")
	}
	eventually(t, "DC is counted", func() bool { return f.proxy.Counters().Flag(FlagDownstreamTermination) == 1 })
	if _, outcomes := f.balancer.seen(); len(outcomes) != 1 || !errors.Is(outcomes[0].Err, ErrClientGone) {
		t.Errorf("outcomes %+v", outcomes)
	}
}

func TestServeStopsEndpointWhenClientDoesNotRead(t *testing.T) {
	var written atomic.Int64
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n")
		chunk := make([]byte, 64<<10)
		for range 4096 {
			n, err := conn.Write(chunk)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	})
	f := newFront(t, list(endpoint))
	conn := f.dial()
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, get)
	// Blocked: no progress over a while, long before the end.
	last, since := int64(-1), time.Now()
	eventually(t, "the endpoint blocks", func() bool {
		if n := written.Load(); n != last || n == 0 {
			last, since = n, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	if last > 64<<20 {
		t.Errorf("endpoint could write %d bytes to a client that does not read", last)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 256<<20 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// seenHeads is an endpoint that records heads and answers with ok2.
func seenHeads(t testing.TB, heads chan<- string) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			head := readHeadOf(r)
			if head == "" {
				return
			}
			heads <- head
			_, _ = io.WriteString(conn, ok2)
		}
	})
}

func TestServeForwardsRequestHeadsUnchanged(t *testing.T) {
	tests := []struct{ name, request, want string }{
		{"nothing is added", get, "GET / HTTP/1.1\nHost: a\n"},
		{
			"hop-by-hop fields go",
			"GET /a%zz?b=c HTTP/1.1\r\nHost: A:80\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Connection: 1\r\nTE: gzip, trailers\r\nUpgrade: h2c\r\nX-B:  two  words \r\nX-B: again\r\nPragma: no-cache\r\n\r\n",
			"GET /a%zz?b=c HTTP/1.1\nHost: A:80\nTE: trailers\nX-B: two  words\nX-B: again\nPragma: no-cache\n",
		},
		{"absolute form", "GET http://b.c/d?e HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\n\r\n", "GET /d?e HTTP/1.1\nHost: b.c\nUser-Agent: u\n"},
		{"double slash", "GET //b//c?d? HTTP/1.1\r\nHost: a\r\n\r\n", "GET //b//c?d? HTTP/1.1\nHost: a\n"},
		{"double slash and odd bytes", "GET //%zz\"<>{}|\\^`%? HTTP/1.1\r\nHost: a\r\n\r\n", "GET //%zz\"<>{}|\\^`%? HTTP/1.1\nHost: a\n"},
		{"odd bytes", "GET /\"<>{}|\\^`%? HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\"<>{}|\\^`%? HTTP/1.1\nHost: a\n"},
		{"version 1.0", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\nHost: a\n"},
		{"own method", "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n", "PURGE / HTTP/1.1\nHost: a\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			heads := make(chan string, 1)
			f := newFront(t, list(seenHeads(t, heads)))
			conn := f.dial()
			_, _ = io.WriteString(conn, tc.request)
			select {
			case got := <-heads:
				if diff := cmp.Diff(tc.want+"\n", strings.ReplaceAll(got, "\r\n", "\n")); diff != "" {
					t.Errorf("head (-want +got):\n%s", diff)
				}
			case <-time.After(patience):
				t.Fatal("the request did not arrive")
			}
		})
	}
}

func TestServeFramesResponses(t *testing.T) {
	const http10 = "GET / HTTP/1.0\r\nHost: a\r\n\r\n"
	tests := []struct{ name, request, response, want string }{
		{"length", get, "HTTP/1.1 200 Fine\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-A: b\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 Fine\nX-A: b\nContent-Length: 2\n\nok"},
		{"close becomes chunks", get, "HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n"},
		{"close for 1.0", http10, "HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.0 200 OK\nConnection: close\n\nok"},
		{"chunks for 1.0", http10, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "HTTP/1.0 200 OK\nConnection: close\n\nok"},
		{"kept alive for 1.0", "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", ok2, "HTTP/1.0 200 OK\nContent-Length: 2\nConnection: keep-alive\n\nok"},
		{"trailers", get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X-T\n\n2\nok\n0\n\n"},
		{"trailers unannounced", get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n"},
		{"HEAD with length", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 5\n\n"},
		{"HEAD with chunks", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"},
		{"204", get, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\n\n"},
		{"304 with length", get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n"},
		{"empty", get, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"},
		{"informational", get, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok2, "HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 2\n\nok"},
		{"informational for 1.0", http10, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok2, "HTTP/1.0 200 OK\nContent-Length: 2\nConnection: close\n\nok"},
		{"client asks to close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", ok2, "HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close\n\nok"},
		{"unknown reason", get, "HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 299 \nContent-Length: 0\n\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name+", served", func(t *testing.T) {
			f := newFront(t, list(saying(t, tc.response)))
			expectBytes(t, f.dial(), tc.request, tc.want)
		})
		t.Run(tc.name+", relayed", func(t *testing.T) {
			h, reply := parseHead([]byte(tc.request), 100)
			if reply != noReply {
				t.Fatal(reply)
			}
			p := New(Config{Active: nothing})
			defer p.Close()
			client, anchor := tcpPair(t)
			upstream, server := tcpPair(t)
			_, _ = io.WriteString(server, tc.response)
			_ = conns.CloseWrite(server)
			go func() {
				_, _ = p.Relay(context.Background(), anchor, upstream, RelayRequest{Method: h.Method, HTTP10: h.HTTP10, KeepAlive: h.KeepAlive})
				_ = anchor.Close()
			}()
			expectBytes(t, client, "", tc.want)
			eventually(t, "the relay has ended", func() bool { return p.Counters().Active() == 0 })
		})
	}
}

// expectBytes sends a request, half closes nothing, and reads exactly want.
func expectBytes(t *testing.T, conn net.Conn, request, want string) {
	t.Helper()
	_, _ = io.WriteString(conn, request)
	want = strings.ReplaceAll(want, "\n", "\r\n")
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if diff := cmp.Diff(want, string(got[:n])); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if extra, _ := io.ReadAll(conn); len(extra) > 0 {
		t.Errorf("%q follows", extra)
	}
}

func tcpPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func TestServeSendsContinueItself(t *testing.T) {
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.CopyN(io.Discard, r, 3)
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"+ok2)
	})
	f := newFront(t, list(endpoint))
	conn := f.dial()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	r := bufio.NewReader(conn)
	if got := readHeadOf(r); got != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("got %q", got)
	}
	expectBytes(t, conn, "abc", strings.ReplaceAll(ok2, "\r\n", "\n"))
	if head := <-heads; strings.Contains(head, "Expect") {
		t.Errorf("endpoint saw %q", head)
	}
}

func TestServeForwardsRequestTrailers(t *testing.T) {
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%v", r.Trailer)
	})
	f := newFront(t, list(endpoint), enableTrailers(true, true))
	for _, announced := range []string{"", "Trailer: X-T\r\n"} {
		got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" + announced + "\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n")
		if !strings.HasSuffix(got, "map[X-T:[1]]") {
			t.Errorf("announced %q: got %q", announced, got)
		}
	}
}

func TestRelayForwardsTrailersWhereTheyAreEnabled(t *testing.T) {
	p := New(Config{Active: nothing})
	defer p.Close()
	client, anchor := tcpPair(t)
	upstream, server := tcpPair(t)
	_, _ = io.WriteString(server, okLine+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n")
	go func() {
		_, _ = p.Relay(context.Background(), anchor, upstream, RelayRequest{Method: "GET", KeepAlive: true, Trailers: true})
		_ = anchor.Close()
	}()
	expectBytes(t, client, "", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\nX-T: 1\n\n")
	eventually(t, "the relay has ended", func() bool { return p.Counters().Active() == 0 })
}

func TestServeSplitsByWeight(t *testing.T) {
	f := newFront(t, nil, func(_ *Config, r *model.Route) {
		r.Clusters = []model.WeightedCluster{{Name: "c", Weight: 90}, {Name: "d", Weight: 10}, {Name: "e", Weight: 0}}
	})
	named := func(name string) netip.AddrPort {
		return httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	}
	f.balancer.endpoints = map[string][]netip.AddrPort{"c": list(named("c")), "d": list(named("d"))}
	client := f.client()
	counts := map[string]int{}
	for range 2000 {
		resp, err := client.Get("http://a/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		counts[string(body)]++
	}
	// Standard deviation: 13.4; six of them.
	if counts["d"] < 120 || counts["d"] > 280 || counts["c"]+counts["d"] != 2000 {
		t.Errorf("counts %v, want about 1800 and 200", counts)
	}
}

func TestServeUsesOrReturnsTheClaim(t *testing.T) {
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	tests := []struct {
		name, cluster, request string
		status                 int // of the claim's outcome
		picks                  int
	}{
		{"used", "c", get, 200, 0},
		{"another cluster's", "d", get, 0, 1},
		{"no route", "c", "GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n", 0, 0},
		{"malformed", "c", "GET\r\n\r\n", 0, 0},
		{"nothing came", "c", "", 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFront(t, list(endpoint))
			client, anchor := tcpPair(t)
			_, _ = io.WriteString(client, tc.request)
			_ = conns.CloseWrite(client)
			claimed := &fakePick{balancer: &fakeBalancer{}, address: endpoint}
			_, err := f.proxy.Serve(context.Background(), anchor, Session{Claim: &Claim{Cluster: model.SharedCluster(tc.cluster), Endpoint: claimed}})
			if err != nil {
				t.Error(err)
			}
			_, outcomes := claimed.balancer.seen()
			if !slices.Equal(outcomes, []Outcome{{Status: tc.status}}) {
				t.Errorf("outcomes %+v, want status %d", outcomes, tc.status)
			}
			if picks, _ := f.balancer.seen(); picks != tc.picks {
				t.Errorf("%d picks, want %d", picks, tc.picks)
			}
		})
	}
}

// The first request keeps the kernel's number, the others have their own.
func TestServeRoutesTheFirstRequestByTheDrawItHas(t *testing.T) {
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	one := &model.Route{Fraction: matcher.Fraction{Numerator: 1, Denominator: 1000000}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
	table := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{one}}}}
	f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) { return table, true }
	})
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, get+get)
	_ = conns.CloseWrite(client)
	if _, err := f.proxy.Serve(context.Background(), anchor, Session{Draw: 1000000}); err != nil {
		t.Error(err)
	}
	answers := bufio.NewReader(client)
	for i, want := range []int{http.StatusOK, http.StatusNotFound} {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
}

func TestServeAnswersHalfClosedClientsThatStay(t *testing.T) {
	// Silent until the watching of the client has seen its FIN.
	endpoint := rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
	f := newFront(t, list(endpoint), routeTimeout(10*watchdog.FirstLook))
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, get)
	_ = conns.CloseWrite(client)
	var asked atomic.Bool
	stays := func() bool { asked.Store(true); return true }
	r, err := f.proxy.Serve(context.Background(), anchor, Session{Stays: stays})
	if err != nil || !r.Quiet || !asked.Load() {
		t.Errorf("got %+v, %v; asked %v", r, err, asked.Load())
	}
	if head := readHeadOf(bufio.NewReader(client)); !strings.HasPrefix(head, "HTTP/1.1 504 ") {
		t.Errorf("client read %q", head)
	}
}

// A read of the connection would only find what the client has sent ahead, or nothing.
func TestServeLeavesClientsThatHaveGoneUnseen(t *testing.T) {
	endpoint := rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab"
	for _, tt := range []struct {
		name, send string
		half       bool
		options    []frontOption
	}{
		{"pipelined", get + get, false, nil},
		{"half closed", get, true, nil},
		{"in the midst of its request", post, false, nil},
		{"in the midst of its request, which is delayed", post, false, []frontOption{faulty(model.Fault{Delay: time.Hour})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, list(endpoint), tt.options...)
			client, anchor := tcpPair(t)
			_, _ = io.WriteString(client, tt.send)
			if tt.half {
				_ = conns.CloseWrite(client)
			}
			var looks atomic.Int64
			stays := func() bool { return looks.Add(1) <= 1 }
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = f.proxy.Serve(context.Background(), anchor, Session{Stays: stays})
			}()
			select {
			case <-done:
			case <-time.After(10 * watchdog.LookEvery):
				t.Error("the client is still served")
				_ = anchor.Close()
			}
		})
	}
}

func TestShutdownFinishesRequestsInProgress(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	f := newFront(t, list(httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		_, _ = io.WriteString(w, "ok")
	})))
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, get)
	go func() { _, _ = f.proxy.Serve(context.Background(), anchor, Session{}) }()
	<-began
	done := make(chan error)
	go func() { done <- f.proxy.Shutdown(context.Background()) }()
	eventually(t, "the proxy refuses", func() bool { return f.proxy.closed.Load() })
	close(finish)
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
		t.Fatalf("got %+v, %v", resp, err)
	}
	_ = client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_, other := tcpPair(t)
	if _, err := f.proxy.Serve(context.Background(), other, Session{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestServeAbortsWhenContextEnds(t *testing.T) {
	began := make(chan struct{})
	f := newFront(t, list(httpEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})))
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, get)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	if r, err := f.proxy.Serve(ctx, anchor, Session{}); !errors.Is(err, context.Canceled) || r.Quiet {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("client sees %v, want a reset", err)
	}
}

func TestRelayTellsWhatMayBeReused(t *testing.T) {
	tests := []struct {
		name, response   string
		upstream, client bool
		status           int
		flag             Flag
	}{
		{"complete", ok2, true, true, 200, FlagNone},
		{"surplus", ok2 + "x", false, true, 200, FlagNone},
		{"endpoint closes", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false, true, 200, FlagNone},
		{"version 1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false, true, 200, FlagNone},
		{"nothing", "", false, true, 503, FlagUpstreamTermination},
		{"garbage", "garbage\r\n\r\n", false, true, 502, FlagUpstreamProtocolError},
		{"endless head", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 70<<10), false, true, 502, FlagUpstreamProtocolError},
		{"switch", "HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", false, true, 502, FlagUpstreamProtocolError},
		{"truncated", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", false, false, 200, FlagUpstreamTermination},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := New(Config{Active: nothing})
			defer p.Close()
			client, anchor := tcpPair(t)
			upstream, server := tcpPair(t)
			go func() {
				_, _ = io.WriteString(server, tc.response)
				_ = conns.CloseWrite(server)
			}()
			r, err := p.Relay(context.Background(), anchor, upstream, RelayRequest{Method: "GET", KeepAlive: true})
			if (err != nil) != (tc.flag != FlagNone) {
				t.Errorf("error %v with flag %v", err, tc.flag)
			}
			if r.UpstreamReusable != tc.upstream || r.ClientReusable != tc.client || r.Status != tc.status || r.Flag != tc.flag {
				t.Errorf("got %+v", r)
			}
			_ = anchor.Close()
			all, _ := io.ReadAll(client)
			if uint64(len(all)) != r.Answered {
				t.Errorf("client read %d bytes, answered %d", len(all), r.Answered)
			}
		})
	}
}

// A client that has nothing yet of a response that breaks off is answered. It may have its head: that waits for the body, but not for long.
func TestRelayAnswersInPlaceOfAResponseThatBreaksOffAtOnce(t *testing.T) {
	const rounds = 50
	answered := 0
	for range rounds {
		p := New(Config{Active: nothing})
		client, anchor := tcpPair(t)
		upstream, server := tcpPair(t)
		_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
		_ = conns.CloseWrite(server)
		r, err := p.Relay(t.Context(), anchor, upstream, RelayRequest{Method: "GET", KeepAlive: true})
		if err == nil || r.Flag != FlagUpstreamTermination || r.UpstreamReusable {
			t.Errorf("got %+v, %v", r, err)
		}
		_ = anchor.Close()
		all, _ := io.ReadAll(client)
		switch got := string(all); {
		case strings.HasPrefix(got, "HTTP/1.1 503 ") && r.Status == 503 && r.ClientReusable:
			answered++
		case !strings.HasPrefix(got, "HTTP/1.1 200 ") || r.Status != 200 || r.ClientReusable:
			t.Errorf("client read %q, with %+v", got, r)
		}
		p.Close()
	}
	if answered == 0 {
		t.Errorf("in %d rounds the client had the head each time: the test says nothing", rounds)
	}
}

// Who has been answered before its request has ended goes on only where the endpoint takes the rest. Otherwise it is told that its connection ends,
// and may send what is left of its request, of which nothing is read here.
func TestRelayEndsAClientWhoseRequestNobodyTakesToItsEnd(t *testing.T) {
	for _, tt := range []struct {
		name, response string
		keeps          bool
	}{
		{"endpoint stays", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
		{"endpoint closes", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
		{"the end of the connection ends the body", "HTTP/1.1 200 OK\r\n\r\nok", false},
		{"version 1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Config{Active: nothing})
			defer p.Close()
			client, anchor := tcpPair(t)
			upstream, server := tcpPair(t)
			_, _ = io.WriteString(server, tt.response)
			_ = conns.CloseWrite(server)
			const rest = "rest of the request"
			_, _ = io.WriteString(client, rest)
			r, err := p.Relay(context.Background(), anchor, upstream, RelayRequest{Method: "POST", KeepAlive: true, Open: func() bool { return true }})
			if err != nil || r.ClientReusable != tt.keeps || r.Lingers == tt.keeps || r.UpstreamReusable != tt.keeps {
				t.Errorf("got %+v, %v", r, err)
			}
			head := readHeadOf(bufio.NewReader(client))
			if closes := strings.Contains(head, "Connection: close\r\n"); closes == tt.keeps {
				t.Errorf("head of the answer: %q", head)
			}
			got := make([]byte, len(rest))
			if n, err := io.ReadFull(anchor, got); err != nil || string(got) != rest {
				t.Errorf("left of the request: got %q, %v, want %q", got[:n], err, rest)
			}
		})
	}
}

func TestRelayKeepsItsDeadline(t *testing.T) {
	p := New(Config{Active: nothing})
	defer p.Close()
	client, anchor := tcpPair(t)
	upstream, _ := tcpPair(t)
	r, err := p.Relay(context.Background(), anchor, upstream, RelayRequest{
		Method: "GET", KeepAlive: true, Deadline: time.Now().Add(50 * time.Millisecond),
	})
	if err == nil || r.Status != 504 || !r.ClientReusable || r.UpstreamReusable {
		t.Errorf("got %+v, %v", r, err)
	}
	if head := readHeadOf(bufio.NewReader(client)); !strings.HasPrefix(head, "HTTP/1.1 504 ") {
		t.Errorf("client read %q", head)
	}
}

// What ends a relay from outside may be the time of its request: the client is told so, if it has nothing of the response yet.
func TestRelayThatIsEndedForItsTimeAnswers(t *testing.T) {
	for _, tt := range []struct {
		begins, want string
		why          error
		flag         Flag
	}{
		{"HTTP/1.1 2", "HTTP/1.1 504 ", ErrRouteTimeout, FlagUpstreamTimeout},
		{"HTTP/1.1 2", "HTTP/1.1 408 ", ErrRequestTimeout, FlagNone},
		{"HTTP/1.1 2", "", context.Canceled, FlagNone},
		{"HTTP/1.1 200 OK\r\n\r\nab", "HTTP/1.1 200 ", ErrRouteTimeout, FlagUpstreamTimeout},
	} {
		t.Run(fmt.Sprintf("%q, %v", tt.begins, tt.why), func(t *testing.T) {
			p := New(Config{Active: nothing})
			defer p.Close()
			client, anchor := tcpPair(t)
			upstream, server := tcpPair(t)
			_, _ = io.WriteString(server, tt.begins)
			ctx, end := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { end(tt.why) })
			r, err := p.Relay(ctx, anchor, upstream, RelayRequest{Method: "GET"})
			if err == nil || r.Flag != tt.flag || r.ClientReusable || r.UpstreamReusable {
				t.Errorf("got %+v, %v; want flag %v", r, err, tt.flag)
			}
			got, _ := io.ReadAll(client)
			if !strings.HasPrefix(string(got), tt.want) || tt.want == "" && len(got) > 0 {
				t.Errorf("client read %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReplyMatchesItsTable(t *testing.T) {
	p := New(Config{Active: nothing})
	defer p.Close()
	for kind := ReplyBadRequest; int(kind) < len(replies); kind++ {
		client, anchor := tcpPair(t)
		n, err := p.Reply(anchor, kind, ReplyTo{Close: true})
		if err != nil {
			t.Fatal(err)
		}
		_ = anchor.Close()
		all, _ := io.ReadAll(client)
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(all)), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if uint64(len(all)) != n || resp.StatusCode != kind.Status() || string(body) != replies[kind].body || !resp.Close {
			t.Errorf("reply %d: %d bytes, %q", kind, n, all)
		}
	}
}

func TestServeIsRightUnderConcurrency(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}
	f := newFront(t, list(httpEndpoint(t, echo), httpEndpoint(t, echo), tcptest.Refusing(t)))
	var clients sync.WaitGroup
	for c := range 16 {
		client := f.client()
		clients.Go(func() {
			for i := range 30 {
				want := strings.Repeat(fmt.Sprintf("%d/%d ", c, i), 1+i*c)
				resp, err := client.Post("http://a/", "text/plain", strings.NewReader(want))
				if err != nil {
					t.Error(err)
					return
				}
				got, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusOK || string(got) != want {
					t.Errorf("client %d, request %d: status %d, %d bytes, want %d", c, i, resp.StatusCode, len(got), len(want))
				}
			}
		})
	}
	clients.Wait()
	eventually(t, "every pick has an outcome", func() bool {
		picked, outcomes := f.balancer.seen()
		return picked == len(outcomes)
	})
}

func TestServeStreamsHeadsBeforeBodies(t *testing.T) {
	proceed := make(chan struct{})
	f := newFront(t, list(httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-proceed
		_, _ = io.WriteString(w, "ok")
	})))
	r, _ := http.NewRequest(http.MethodGet, "http://a/", nil)
	var hints int
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
	}))
	resp, err := f.client().Do(r) // returns only if the head is not held back
	if err != nil {
		t.Fatal(err)
	}
	close(proceed)
	if body, _ := io.ReadAll(resp.Body); string(body) != "ok" || hints != 0 {
		t.Errorf("body %q, %d informational responses", body, hints)
	}
}

func TestRoutesSeeMethodSchemeAndOneDraw(t *testing.T) {
	name := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	is := func(header, value string) []matcher.HeaderMatch {
		return []matcher.HeaderMatch{{Name: header, Kind: matcher.HeaderString, String: matcher.Exact(value)}}
	}
	to := func(clusters ...string) (list []model.WeightedCluster) {
		for _, c := range clusters {
			list = append(list, model.WeightedCluster{Name: c, Weight: 1})
		}
		return list
	}
	// Both take the same half of the draws: the second cluster gets none.
	half := &model.Route{Path: matcher.PathMatch{Value: "/half"}, Fraction: matcher.Fraction{Numerator: 50, Denominator: 100}, Clusters: to("half", "never")}
	half.Clusters[0].Weight, half.Clusters[1].Weight = 50, 50
	table := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{
		half,
		{Headers: is(":method", "PUT"), Clusters: to("put")},
		{Headers: is(":scheme", "https"), Clusters: to("https")},
		{Clusters: to("rest")},
	}}}}
	f := newFront(t, nil, func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) { return table, true }
	})
	for _, cluster := range []string{"half", "never", "put", "https", "rest"} {
		f.balancer.endpoints[cluster] = list(httpEndpoint(t, name(cluster)))
	}
	ask := func(line, more string) string {
		t.Helper()
		c := f.dial()
		if _, err := io.WriteString(c, line+" HTTP/1.1\r\nHost: a\r\n"+more+"\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, tt := range []struct{ line, more, want string }{
		{"GET /", "", "rest"},
		{"PUT /", "Content-Length: 0\r\n", "put"},
		{"GET /", "X-Forwarded-Proto: https\r\n", "https"},
		{"GET https://a/", "", "https"},
		{"GET http://a/", "X-Forwarded-Proto: https\r\n", "rest"},
	} {
		if got := ask(tt.line, tt.more); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.line, tt.more, got, tt.want)
		}
	}
	found := map[string]int{}
	for range 100 {
		found[ask("GET /half", "")]++
	}
	if found["half"] < 20 || found["rest"] < 20 || found["half"]+found["rest"] != 100 {
		t.Errorf("half of the requests: %v", found)
	}
}

func TestHostIsSentOnAsTheTableStripsIt(t *testing.T) {
	rule := rewrite.HostRule{AnyPort: true, TrailingDot: true}
	table := &model.RouteTable{Host: rule, VirtualHosts: []*model.VirtualHost{{Domains: []string{"a.b"}, Routes: []*model.Route{
		{Path: matcher.PathMatch{Kind: matcher.PathConnect}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}, Upgrades: []string{model.UpgradeConnect}},
		{
			Headers:  []matcher.HeaderMatch{{Name: "host", Kind: matcher.HeaderString, String: matcher.Exact("a.b")}},
			Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}},
		},
	}}}}
	heads := make(chan string, 1)
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Method + " " + r.RequestURI + " " + r.Host
		w.WriteHeader(http.StatusNoContent)
	})
	f := newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) { return table, true }
	})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a.b.:80\r\n\r\n":           "GET / a.b",
		"GET http://a.b:80/x HTTP/1.1\r\nHost: c\r\n\r\n":   "GET /x a.b",
		"CONNECT a.b.:80 HTTP/1.1\r\nHost: a.b.:80\r\n\r\n": "CONNECT a.b:80 a.b:80",
	} {
		c := f.dial()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d", request, resp.StatusCode)
			continue
		}
		if got := <-heads; got != want {
			t.Errorf("%q: the endpoint got %q, want %q", request, got, want)
		}
	}
}

// A kernel's draw that has come to no endpoint stands: drawn again, less requests would fail than are to. The next request is drawn for itself.
func TestServeLetsTheFirstRequestFailThatIsTo(t *testing.T) {
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	f := newFront(t, list(endpoint))
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, get+get)
	_ = conns.CloseWrite(client)
	if _, err := f.proxy.Serve(context.Background(), anchor, Session{Fails: true}); err != nil {
		t.Error(err)
	}
	r := bufio.NewReader(client)
	for i, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("request %d: got %+v, %v, want %d", i, resp, err, want)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	if picks, _ := f.balancer.seen(); picks != 1 {
		t.Errorf("%d picks, want 1", picks)
	}
}
