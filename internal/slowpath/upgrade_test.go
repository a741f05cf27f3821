// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
)

func allow(upgrades ...string) frontOption {
	return func(_ *Config, r *model.Route) { r.Upgrades = upgrades }
}

// tunnelTimeout is a route's timeout, short, but long enough for a switch on a slow machine.
const tunnelTimeout = 300 * time.Millisecond

func TestServeTunnelsUpgrades(t *testing.T) {
	var head string
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		head = readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-A: b\r\n\r\n")
		all, _ := io.ReadAll(r) // until the half close
		_, _ = conn.Write(bytes.ToUpper(all))
	})
	f := newFront(t, list(endpoint), routeTimeout(tunnelTimeout), allow("echo"))
	conn := f.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
	r := bufio.NewReader(conn)
	got := readHeadOf(r)
	want := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-A: b\r\n\r\n"
	if got != want {
		t.Errorf("head %q, want %q", got, want)
	}
	// Outlive the route's timeout, which must not apply.
	<-time.After(2 * tunnelTimeout)
	_, _ = io.WriteString(conn, "world")
	_ = conn.(*net.TCPConn).CloseWrite()
	if body, err := io.ReadAll(r); err != nil || string(body) != "HELLO WORLD" {
		t.Errorf("got %q, %v", body, err)
	}
	if !strings.Contains(head, "Connection: Upgrade\r\n") || !strings.Contains(head, "Upgrade: echo\r\n") {
		t.Errorf("endpoint saw %q", head)
	}
}

// What is expected here is what Envoy 1.40 does, except that it replaces the body
// of an endpoint's 200 by nothing.
func TestServeSwitchesOnlyToWhatTheRouteAllows(t *testing.T) {
	const closing = "Connection: close\r\n"
	tests := []struct {
		name, target, fields string
		status               int
		// asked is the Upgrade field that reaches the endpoint, if any does.
		asked   string
		closing bool
	}{
		{"allowed", "/", "Connection: Upgrade\r\nUpgrade: echo\r\n", 101, "echo", false},
		{"case", "/", "Connection: keep-alive, UPGRADE\r\nUpgrade: Echo\r\n", 101, "Echo", false},
		{"empty field beside it", "/", "Connection: Upgrade\r\nUpgrade:\r\nUpgrade: echo\r\n", 101, "echo", false},
		{"other protocol", "/", "Connection: Upgrade\r\nUpgrade: other\r\n", 403, "", true},
		{"list", "/", "Connection: Upgrade\r\nUpgrade: echo, other\r\n", 403, "", true},
		{"one protocol twice", "/", "Connection: Upgrade\r\nUpgrade: echo\r\nUpgrade: echo\r\n", 403, "", true},
		{"none", "/", "Connection: Upgrade\r\nUpgrade:\r\n", 403, "", true},
		{"h2c in a list", "/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, echo\r\nHTTP2-Settings: AA\r\n", 403, "", true},
		{"no route comes first", "/x", "Host: nowhere\r\nConnection: Upgrade\r\nUpgrade: other\r\n", 404, "", true},
		{"allowed without a route", "/x", "Host: nowhere\r\nConnection: Upgrade\r\nUpgrade: echo\r\n", 404, "", true},
		{"endpoint does not switch", "/no", "Connection: Upgrade\r\nUpgrade: echo\r\n", 200, "echo", true},

		{"no Connection field", "/", "Upgrade: other\r\n", 200, "", false},
		{"h2c", "/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2C\r\nHTTP2-Settings: AA\r\n", 200, "", false},
		{"no Upgrade field", "/", "Connection: Upgrade\r\n", 200, "", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var head atomic.Pointer[string]
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				got := readHeadOf(r)
				head.Store(&got)
				if strings.HasPrefix(got, "GET / ") && strings.Contains(got, "Upgrade") {
					_, _ = io.WriteString(conn, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
					return
				}
				_, _ = io.WriteString(conn, ok2)
			})
			f := newFront(t, list(endpoint), allow("echo", "h2c"))
			host := "Host: a\r\n"
			if strings.HasPrefix(tc.fields, "Host") {
				host = ""
			}
			conn := f.dial()
			_, _ = io.WriteString(conn, "GET "+tc.target+" HTTP/1.1\r\n"+host+tc.fields+"\r\n")
			got := readHeadOf(bufio.NewReader(conn))
			if want := strconv.Itoa(tc.status); !strings.HasPrefix(got, "HTTP/1.1 "+want+" ") || strings.Contains(got, closing) != tc.closing {
				t.Errorf("got %q, want %s, closing %t", got, want, tc.closing)
			}
			asked := ""
			if h := head.Load(); h != nil {
				asked = upgradeOf(t, *h)
			}
			if asked != tc.asked {
				t.Errorf("endpoint was asked for %q, want %q", asked, tc.asked)
			}
		})
	}
}

// Some endpoints take what follows an upgrade for the other protocol, whatever its length: what they make of it then must not be answered to the next
// request.
func TestRefusedUpgradeWithABodyEndsTheEndpointsConnection(t *testing.T) {
	tests := []struct {
		name, head string
		opened     int32
	}{
		{"without a body", "GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n", 1},
		{"with a body", "POST /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 5\r\n\r\nhello", 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var opened atomic.Int32
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				opened.Add(1)
				for {
					request, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					_, _ = io.WriteString(conn, ok2)
				}
			})
			f := newFront(t, list(endpoint), allow("echo"))
			for _, head := range []string{tc.head, "GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"} {
				if got := f.exchange(head); !strings.HasPrefix(got, okLine) {
					t.Fatalf("got %q", got)
				}
			}
			if got := opened.Load(); got != tc.opened {
				t.Errorf("%d connections to the endpoint, want %d", got, tc.opened)
			}
		})
	}
}

// upgradeOf is what a head asks to switch to.
func upgradeOf(t *testing.T, head string) string {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Header["Http2-Settings"]; got != nil {
		t.Errorf("HTTP2-Settings: %q reached the endpoint", got)
	}
	if (r.Header.Get("Connection") == "Upgrade") != (r.Header.Get("Upgrade") != "") {
		t.Errorf("Connection and Upgrade disagree: %v", r.Header)
	}
	return strings.Join(r.Header["Upgrade"], "|")
}

func TestTunnelEndsWithItsClient(t *testing.T) {
	ended := make(chan error, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, err := io.Copy(conn, zeros{}) // blocks, and ends when the tunnel does
		ended <- err
	})
	f := newFront(t, list(endpoint), allow("x"))
	client, anchor := tcpPair(t)
	_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	served := make(chan error, 1)
	go func() {
		_, err := f.proxy.Serve(context.Background(), anchor, Session{Gone: func() bool { return true }})
		served <- err
	}()
	if head := readHeadOf(bufio.NewReader(client)); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("head %q", head)
	}
	// A client of the fast path that dies with unread data sends FIN, no reset, and acknowledges nothing more.
	_ = conns.CloseWrite(client)
	if err := <-served; !errors.Is(err, ErrClientGone) {
		t.Fatalf("got %v, want %v", err, ErrClientGone)
	}
	if err := <-ended; err == nil {
		t.Error("the endpoint saw a clean end")
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TCP tells of a reset once: where the client's direction hears of it first, the endpoint's must not end cleanly.
func TestTunnelTakesNoResetForItsEnd(t *testing.T) {
	for range 50 {
		seen := make(chan struct{})
		endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
			readHeadOf(r)
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
			var reading sync.WaitGroup
			reading.Go(func() { _, _ = io.Copy(io.Discard, r) })
			<-seen
			conns.Abort(conn)
			reading.Wait()
		})
		f := newFront(t, list(endpoint), allow(model.UpgradeWebSocket))
		// The client sends and receives as well.
		conn := upstream.New(f.dial().(*net.TCPConn))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		r := bufio.NewReader(conn)
		readHeadOf(r)
		if _, err := io.ReadFull(r, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		var upload sync.WaitGroup
		upload.Go(func() { _, _ = io.Copy(conn, zeros{}) })
		close(seen)
		if rest, err := io.ReadAll(r); err == nil {
			t.Errorf("the tunnel ended cleanly behind %q", rest)
		}
		_ = conn.Close()
		upload.Wait()
	}
}

// A client that leaves while its route is looked for is no request without a route.
func TestAClientThatLeavesDuringMatchingIsCancelled(t *testing.T) {
	var gone atomic.Bool
	f := newFront(t, list(silent(t)), func(c *Config, _ *model.Route) {
		activeOf(c).match = func(_ *model.RouteTable, _ *matcher.Request, isGone func() bool) *model.Route {
			gone.Store(true)
			if !isGone() {
				t.Error("the session knows that the client has gone")
			}
			return nil
		}
	})
	server, client := tcpPair(t)
	if _, err := io.WriteString(client, get); err != nil {
		t.Fatal(err)
	}
	if _, err := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Gone: gone.Load}); err != nil {
		t.Error(err)
	}
	if n := f.proxy.Counters().Flag(FlagDownstreamTermination); n != 1 {
		t.Errorf("%d clients that have left, want 1", n)
	}
	if n := f.proxy.Counters().Flag(FlagNoRoute); n != 0 {
		t.Errorf("%d requests without a route", n)
	}
}
