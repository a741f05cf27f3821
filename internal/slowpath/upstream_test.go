// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/workload"
)

// waitFor fails the test unless the channel is closed or sent to.
func waitFor[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
	return v
}

// idleConns is how many connections the pool holds.
func (f *front) idleConns() (n int) {
	f.proxy.conns.Each(func(*conns.Conn) { n++ })
	return n
}

// awaitIdle waits until the pool holds so many connections: a client has its answer a moment before.
func (f *front) awaitIdle(n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d connections are idle", n), func() bool { return f.idleConns() == n })
}

// ask sends a GET for a path and returns the body of the answer, whose status must be 200.
func ask(t testing.TB, conn net.Conn, r *bufio.Reader, path string) string {
	t.Helper()
	_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, body %q, %v", path, resp.StatusCode, body, err)
	}
	return string(body)
}

func TestServeGivesNobodyWhatNobodyAskedFor(t *testing.T) {
	const unasked = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked"
	for name, format := range map[string]string{
		"length": okLine + "Content-Length: %[2]d\r\n\r\n%[1]s" + unasked,
		"chunks": okLine + "Transfer-Encoding: chunked\r\n\r\n%[2]x\r\n%[1]s\r\n0\r\n\r\n" + unasked,
		// Longer than what is read ahead: what is unasked is still in the socket.
		"long": okLine + "X-Pad: " + strings.Repeat("x", 4<<10) + "\r\nContent-Length: %[2]d\r\n\r\n%[1]s" + unasked,
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				for {
					_, rest, _ := strings.Cut(readHeadOf(r), " ")
					path, _, ok := strings.Cut(rest, " ")
					if !ok {
						return
					}
					body := path + strings.Repeat(".", 5000)
					_, _ = fmt.Fprintf(conn, format, body, len(body))
				}
			})
			f := newFront(t, list(endpoint))
			conn := f.dial()
			_ = conn.SetDeadline(time.Now().Add(10 * patience))
			r := bufio.NewReader(conn)
			for i := range 1000 {
				path := fmt.Sprintf("/%d", i)
				if got := ask(t, conn, r, path); strings.TrimRight(got, ".") != path {
					t.Fatalf("%s was answered %q", path, got)
				}
			}
		})
	}
}

func TestServeUsesNoIdleConnectionThatHasEndedOrSpoken(t *testing.T) {
	timeout := "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for name, end := range map[string]func(net.Conn){
		"closed":        func(c net.Conn) { _ = c.Close() },
		"half closed":   func(c net.Conn) { _ = conns.CloseWrite(c) },
		"reset":         func(c net.Conn) { conns.Abort(c) },
		"spoke":         func(c net.Conn) { _, _ = io.WriteString(c, timeout) },
		"spoke, closed": func(c net.Conn) { _, _ = io.WriteString(c, timeout); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var connections, requests atomic.Int64
			idle, ended := make(chan struct{}), make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				first := connections.Add(1) == 1
				for readHeadOf(r) != "" {
					requests.Add(1)
					_, _ = io.WriteString(conn, ok2)
					if first {
						<-idle
						end(conn)
						close(ended)
						_, _ = io.Copy(io.Discard, r)
						return
					}
				}
			})
			f := newFront(t, list(endpoint))
			conn := f.dial()
			r := bufio.NewReader(conn)
			ask(t, conn, r, "/")
			f.awaitIdle(1)
			close(idle)
			waitFor(t, "the endpoint has ended it", ended)
			ask(t, conn, r, "/")
			if c, n := connections.Load(), requests.Load(); c != 2 || n != 2 {
				t.Errorf("%d connections, %d requests, want 2 and 2", c, n)
			}
		})
	}
}

func TestIdleConnectionsAreBoundedAndEnd(t *testing.T) {
	const limit, requests = 2, 4
	var open atomic.Int64
	var together sync.WaitGroup
	together.Add(requests)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		open.Add(1)
		defer open.Add(-1)
		readHeadOf(r)
		together.Done()
		together.Wait()
		_, _ = io.WriteString(conn, ok2)
		_, _ = io.Copy(io.Discard, r)
	})
	for name, end := range map[string]func(*front){
		"as it is closed": func(f *front) { f.proxy.Close() },
		"of age":          func(*front) {},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Limits{IdlePerEndpoint: limit}
			if name == "of age" {
				limits.UpstreamIdle = 300 * time.Millisecond
			}
			f := newFront(t, list(endpoint), withLimits(limits))
			var clients sync.WaitGroup
			for range requests {
				clients.Go(func() { f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") })
			}
			clients.Wait()
			if n := f.idleConns(); n != limit {
				t.Errorf("%d idle connections, want %d", n, limit)
			}
			end(f)
			eventually(t, "the endpoint has no connection left", func() bool { return open.Load() == 0 && f.idleConns() == 0 })
		})
		together.Add(requests)
	}
	together.Add(-requests)
}

// The fast path opens connections of its own to the same endpoints: of thousands that are asked now and then each would have two for an hour.
func TestConnectionThatStandsInForTheFastPathIsKeptBriefly(t *testing.T) {
	for name, tt := range map[string]struct {
		brief []bool
		kept  int
	}{
		"all stand in":               {[]bool{true, true}, 0},
		"opened for another request": {[]bool{false, true}, 1},
		"used by another request":    {[]bool{true, false}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, list(saying200(t)), withLimits(Limits{BriefIdle: time.Hour, UpstreamIdle: 3 * time.Hour}))
			for _, brief := range tt.brief {
				f.brief.Store(brief)
				f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				f.awaitIdle(1)
			}
			f.age(2 * time.Hour)
			f.proxy.conns.Sweep()
			if n := f.idleConns(); n != tt.kept {
				t.Errorf("%d connections are kept, want %d", n, tt.kept)
			}
		})
	}
}

// age makes idle connections so much older.
func (f *front) age(by time.Duration) {
	f.proxy.conns.Each(func(c *conns.Conn) { c.IdleSince = c.IdleSince.Add(-by) })
}

// saying200 answers each request of a connection.
func saying200(t testing.TB) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for readHeadOf(r) != "" {
			_, _ = io.WriteString(conn, ok2)
		}
	})
}

func TestIdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	first, second := saying200(t), saying200(t)
	open := map[netip.AddrPort]int{}
	var f *front
	f = newFront(t, list(first, second), func(c *Config, _ *model.Route) {
		c.Dial = func(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
			if f.idleConns() > 0 {
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", unix.EMFILE)}
			}
			open[to]++
			return conns.Dial(ctx, from, to)
		}
	})
	for range 2 {
		if got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("got %q", got)
		}
		f.awaitIdle(1)
	}
	if open[first] != 1 || open[second] != 1 {
		t.Errorf("connections opened: %v, want one to each", open)
	}
}

func TestIdleConnectionsThatEndAreClosedWithoutARequest(t *testing.T) {
	closed := make(chan struct{})
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, ok2)
		_ = conns.CloseWrite(conn)
		_, _ = io.Copy(io.Discard, r)
		close(closed)
	})
	f := newFront(t, list(endpoint))
	conn := f.dial()
	ask(t, conn, bufio.NewReader(conn), "/")
	waitFor(t, "the half-closed connection is closed", closed)
}

func TestServeAnswersEarlyInALargeUpload(t *testing.T) {
	for name, framing := range map[string]string{"length": "Content-Length: 1000000000\r\n\r\n", "chunks": "Transfer-Encoding: chunked\r\n\r\n3fffffff\r\n"} {
		t.Run(name, func(t *testing.T) {
			answered, closed := make(chan struct{}), make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(conn, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
				<-answered // reads nothing: the upload blocks
				if n, _ := io.Copy(io.Discard, r); n < 1000000000 {
					close(closed)
				}
			})
			f := newFront(t, list(endpoint))
			conn := f.dial()
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+framing)
			var upload sync.WaitGroup
			upload.Go(func() { _, _ = io.Copy(conn, zeros{}) })
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
				t.Errorf("got %+v, %v", resp, err)
			}
			close(answered)
			waitFor(t, "the endpoint's connection is closed", closed)
			if n := f.idleConns(); n != 0 {
				t.Errorf("%d idle connections, want none", n)
			}
			_ = conn.Close()
			upload.Wait()
		})
	}
}

func TestServeBreaksOffWhenTheEndpointResets(t *testing.T) {
	tests := []struct{ name, request, answer string }{
		{"length", get, okLine + "Content-Length: 10\r\n\r\nhello"},
		{"chunks", get, okLine + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		{"until close", get, okLine + "\r\nhello"},
		{"until close for 1.0", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", okLine + "\r\nhello"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			seen := make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(conn, tc.answer)
				<-seen
				conns.Abort(conn)
			})
			f := newFront(t, list(endpoint))
			conn := f.dial()
			_, _ = io.WriteString(conn, tc.request)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			close(seen)
			if rest, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("the body ended cleanly behind %q", rest)
			}
			eventually(t, "UC is counted", func() bool { return f.proxy.Counters().Flag(FlagUpstreamTermination) == 1 })
		})
	}
}

// TCP tells of a reset once: whoever hears of it first, the writing of the request or the reading of the answer.
func TestServeTakesNoResetInAnUploadForTheEnd(t *testing.T) {
	for range 50 {
		seen := make(chan struct{})
		endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
			readHeadOf(r)
			_, _ = io.WriteString(conn, okLine+"\r\nhello")
			var reading sync.WaitGroup
			reading.Go(func() { _, _ = io.Copy(io.Discard, r) })
			<-seen
			conns.Abort(conn)
			reading.Wait()
		})
		f := newFront(t, list(endpoint))
		conn := f.dial()
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n")
		var upload sync.WaitGroup
		upload.Go(func() { _, _ = io.Copy(conn, zeros{}) })
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		close(seen)
		if rest, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("the body ended cleanly behind %q", rest)
		}
		_ = conn.Close()
		upload.Wait()
	}
}

func TestServeIsFreedByItsContext(t *testing.T) {
	upload := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"
	for name, request := range map[string]string{"writing": upload, "reading": get} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			began := make(chan struct{})
			endpoint := rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				close(began)
				<-release // reads and says nothing
			})
			f := newFront(t, list(endpoint))
			defer close(release)
			client, anchor := tcpPair(t)
			_, _ = io.WriteString(client, request)
			var sent atomic.Int64
			var uploading sync.WaitGroup
			if request == upload {
				uploading.Go(func() {
					_, _ = io.Copy(writerFunc(func(p []byte) (int, error) {
						n, err := client.Write(p)
						sent.Add(int64(n))
						return n, err
					}), zeros{})
				})
			}
			ctx, cancel := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() {
				_, err := f.proxy.Serve(ctx, anchor, Session{})
				served <- err
			}()
			waitFor(t, "the request arrives", began)
			if request == upload { // no progress for a while: the write is blocked
				last, since := int64(-1), time.Now()
				eventually(t, "the upload blocks", func() bool {
					if n := sent.Load(); n != last || n == 0 {
						last, since = n, time.Now()
					}
					return time.Since(since) > 200*time.Millisecond
				})
			}
			cancel()
			if err := waitFor(t, "Serve returns", served); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			_ = client.Close()
			uploading.Wait()
		})
	}
}

// enableTrailers does so on both sides, or on one.
func enableTrailers(clients, endpoints bool) frontOption {
	return func(c *Config, _ *model.Route) {
		tables, clusters := activeOf(c).routes, activeOf(c).cluster
		activeOf(c).routes = func(listener string) (*model.RouteTable, bool) {
			t, ok := tables(listener)
			t.Trailers = clients
			return t, ok
		}
		activeOf(c).cluster = func(name string) *model.Cluster {
			cluster := clusters(name)
			cluster.Trailers = endpoints
			return cluster
		}
	}
}

// As in Envoy trailers pass where both sides have them enabled. What announces them passes always.
func TestServeForwardsTrailersWhereBothSidesHaveThem(t *testing.T) {
	for _, enabled := range []struct{ clients, endpoints bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", enabled), func(t *testing.T) {
			requests := make(chan string, 1)
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				requests <- readHeadOf(r) + readHeadOf(r)
				_, _ = io.WriteString(conn, okLine+"Transfer-Encoding: chunked\r\ntrailer: x-R\r\n\r\n2\r\nok\r\n0\r\nx-R: 1\r\nCookie:  2 \r\n\r\n")
			})
			sent, got := "", ""
			if enabled.clients && enabled.endpoints {
				sent, got = "x-Q: 3\r\nAuthorization: 4\r\n", "x-R: 1\nCookie: 2\n"
			}
			f := newFront(t, list(endpoint), enableTrailers(enabled.clients, enabled.endpoints))
			expectBytes(t, f.dial(), "POST / HTTP/1.1\r\nHost: a\r\ntrailer: x-Q\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nx-Q: 3\r\nAuthorization:4\r\n\r\n",
				"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\ntrailer: x-R\n\n2\nok\n0\n"+got+"\n")
			want := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ntrailer: x-Q\r\n\r\n2\r\nno\r\n0\r\n" + sent + "\r\n"
			if diff := cmp.Diff(want, waitFor(t, "the request arrives", requests)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServeHoldsNoPieceOfABodyBack(t *testing.T) {
	for name, parts := range map[string][]string{
		"length": {"Content-Length: 15\r\n\r\n", "hello", "HELLO", "world"},
		"chunks": {"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", "5\r\nHELLO\r\n", "5\r\nworld\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			pieces := make(chan string)
			f := newFront(t, list(httpEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
				piece := make([]byte, 5)
				for range 3 {
					if _, err := io.ReadFull(r.Body, piece); err != nil {
						t.Error(err)
					}
					pieces <- string(piece)
				}
			})))
			conn := f.dial()
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+parts[0])
			for i, want := range []string{"hello", "HELLO", "world"} {
				_, _ = io.WriteString(conn, parts[i+1])
				if got := waitFor(t, "the endpoint has "+want, pieces); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if head := readHeadOf(bufio.NewReader(conn)); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
				t.Errorf("answer %q", head)
			}
		})
	}
}

// staleConn fails its next write, as a connection does that ended after it was looked at.
type staleConn struct {
	net.Conn
	stale *atomic.Bool
}

func (c staleConn) Write(p []byte) (int, error) {
	if c.stale.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func TestServeTriesAgainWhatAnEndedConnectionHasNotTaken(t *testing.T) {
	heads := make(chan string, 2)
	f := newFront(t, list(seenHeads(t, heads)))
	conn := f.dial()
	r := bufio.NewReader(conn)
	ask(t, conn, r, "/1")
	var stale atomic.Bool
	stale.Store(true)
	f.proxy.conns.Each(func(c *conns.Conn) { c.Conn = staleConn{c.Conn, &stale} })
	ask(t, conn, r, "/2")
	for _, want := range []string{"/1", "/2"} {
		if got := waitFor(t, "the request arrives", heads); !strings.HasPrefix(got, "GET "+want+" ") {
			t.Errorf("got %q, want %s", got, want)
		}
	}
	eventually(t, "both requests end well, with one use of an endpoint each", func() bool {
		_, outcomes := f.balancer.seen()
		return slices.Equal(outcomes, []Outcome{{Status: 200}, {Status: 200}})
	})
}

func TestServeSpreadsNoConnectionOverEndpoints(t *testing.T) {
	named := func(name string) netip.AddrPort {
		return httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	}
	f := newFront(t, list(named("a"), named("b")))
	conn := f.dial()
	r := bufio.NewReader(conn)
	for i := range 20 {
		if got, want := ask(t, conn, r, "/"), string("ab"[i%2]); got != want {
			t.Fatalf("request %d was answered by %q, want %q", i, got, want)
		}
	}
	f.awaitIdle(2)
}
