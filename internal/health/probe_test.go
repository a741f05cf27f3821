// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/test/tcptest"
)

func httpCheck() *model.HealthCheck {
	return &model.HealthCheck{
		Timeout: 5 * time.Second, ReuseConnection: true,
		HTTP: &model.HTTPCheck{
			Path: "/healthz?deep=%2F", Method: "GET",
			Expected:  []model.StatusRange{{First: 200, Behind: 201}, {First: 204, Behind: 206}},
			Retriable: []model.StatusRange{{First: 500, Behind: 504}},
		},
	}
}

// probeOf asks a server that listens at that address.
func probeOf(t *testing.T, config *model.HealthCheck, address string) *Probe {
	t.Helper()
	p := NewProbe(config, "the-cluster", model.Endpoint{Address: netip.MustParseAddrPort(address)}, nil)
	t.Cleanup(p.Close)
	return p
}

// attempt fails the test when error and result disagree.
func attempt(t *testing.T, p *Probe) Result {
	t.Helper()
	r, err := p.Attempt(t.Context())
	if r.Healthy() != (err == nil) {
		t.Errorf("result %q with error %v", r, err)
	}
	return r
}

func TestHTTPAnswerIsJudgedByItsStatus(t *testing.T) {
	tests := []struct {
		status   int
		degraded bool
		want     Result
	}{
		{status: 200, want: Passed},
		{status: 201, want: Failed},
		{status: 204, want: Passed},
		{status: 205, want: Passed},
		{status: 302, want: Failed},
		{status: 404, want: Failed},
		{status: 500, want: Retriable},
		{status: 503, want: Retriable},
		{status: 504, want: Failed},
		{status: 200, degraded: true, want: PassedDegraded},
		{status: 404, degraded: true, want: Failed},
	}
	for _, test := range tests {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.degraded {
				w.Header().Set("X-Envoy-Degraded", "")
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(test.status)
		}))
		p := probeOf(t, httpCheck(), server.Listener.Addr().String())
		if got := attempt(t, p); got != test.want {
			t.Errorf("status %d, degraded %t: got %q, want %q", test.status, test.degraded, got, test.want)
		}
		p.Close()
		server.Close()
	}
}

func TestHTTPRequestIsEnvoys(t *testing.T) {
	config := httpCheck()
	config.HTTP.Changes = rewrite.HeaderChanges{
		Remove: []string{"x-none"},
		Set: []rewrite.HeaderSetting{
			{Name: "x-a", Value: text("1")}, {Name: "x-a", Value: text("2")},
			{Name: "user-agent", Value: text("me"), How: rewrite.OverwriteIfExists},
			{Name: "x-b", Value: text("no"), How: rewrite.OverwriteIfExists},
			{Name: "x-a", Value: text("no"), How: rewrite.AddIfAbsent},
			{Name: "x-empty", Value: text("")},
		},
	}
	tests := []struct {
		name, host, hostname, want string
	}{
		{"the cluster's name", "", "", "the-cluster"},
		{"the check's host", "check.example", "", "check.example"},
		{"the endpoint's", "check.example", "endpoint.example", "endpoint.example"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r }))
			defer server.Close()
			config.HTTP.Host = test.host
			p := NewProbe(config, "the-cluster", model.Endpoint{
				Address: netip.MustParseAddrPort(server.Listener.Addr().String()), Check: model.EndpointCheck{Hostname: test.hostname},
			}, nil)
			defer p.Close()
			attempt(t, p)
			r := <-seen
			want := http.Header{"User-Agent": {"me"}, "X-A": {"1", "2"}}
			if diff := cmp.Diff(want, r.Header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if r.Host != test.want || r.RequestURI != "/healthz?deep=%2F" || r.Method != http.MethodGet {
				t.Errorf("got %s %s of host %q, want GET /healthz?deep=%%2F of host %q", r.Method, r.RequestURI, r.Host, test.want)
			}
		})
	}
}

func text(s string) rewrite.Format {
	return rewrite.Format{Source: s, Parts: []rewrite.FormatPart{{Text: s}}}
}

func TestConnectionIsKeptOnlyIfAsked(t *testing.T) {
	for _, reuse := range []bool{true, false} {
		connections := map[string]bool{}
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { connections[r.RemoteAddr] = true }))
		config := httpCheck()
		config.ReuseConnection = reuse
		p := probeOf(t, config, server.Listener.Addr().String())
		for range 3 {
			attempt(t, p)
		}
		if want := map[bool]int{true: 1, false: 3}[reuse]; len(connections) != want {
			t.Errorf("reuse_connection %t: three attempts over %d connections, want %d", reuse, len(connections), want)
		}
		p.Close()
		server.Close()
	}
}

// listen serves each connection to 127.0.0.1 by that function, and closes it then.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// mute reads for ever and says nothing.
func mute(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// halfABody waits for the request: an answer that comes before it is a fault of its own.
func halfABody(c net.Conn) {
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return
	}
	_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"))
	mute(c)
}

func TestLostConnectionsAndTimeoutsAreToldApart(t *testing.T) {
	tcp := func(receive ...string) *model.HealthCheck {
		c := &model.HealthCheck{Timeout: 300 * time.Millisecond, TCP: &model.TCPCheck{}}
		for _, r := range receive {
			c.TCP.Receive = append(c.TCP.Receive, []byte(r))
		}
		return c
	}
	quick := httpCheck()
	quick.Timeout = 300 * time.Millisecond
	tests := []struct {
		name   string
		config *model.HealthCheck
		serve  func(net.Conn) // nil: nobody listens
		want   Result
	}{
		{"HTTP, refused", quick, nil, Unreachable},
		{"HTTP, closed", quick, func(net.Conn) {}, Unreachable},
		{"HTTP, not HTTP", quick, func(c net.Conn) { _, _ = c.Write([]byte("hello\r\n\r\n")) }, Unreachable},
		{"HTTP, mute", quick, mute, TimedOut},
		{"HTTP, half a body", quick, halfABody, TimedOut},
		{"TCP, refused", tcp(), nil, Unreachable},
		{"TCP, connected", tcp(), mute, Passed},
		{"TCP, mute", tcp("PONG"), mute, TimedOut},
		{"TCP, closed", tcp("PONG"), func(net.Conn) {}, Unreachable},
		{"TCP, expected in pieces", tcp("PO", "NG"), func(c net.Conn) { _, _ = c.Write([]byte("xPOyNGz")); mute(c) }, Passed},
		{"TCP, wrong order", tcp("NG", "PO"), func(c net.Conn) { _, _ = c.Write([]byte("PONG")); mute(c) }, TimedOut},
		{"TCP, overlapping", tcp("PON", "NG"), func(c net.Conn) { _, _ = c.Write([]byte("PONG")); mute(c) }, TimedOut},
		{"TCP, endless", tcp("PONG"), func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("x", 2*limits.HealthTCP.BodyBytes))); mute(c) }, Unreachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			address := tcptest.Refusing(t).String()
			if test.serve != nil {
				address = listen(t, test.serve)
			}
			if got := attempt(t, probeOf(t, test.config, address)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTCPCheckAsksAgainOnItsConnection(t *testing.T) {
	accepted := make(chan struct{}, 10)
	address := listen(t, func(c net.Conn) {
		accepted <- struct{}{}
		for in := bufio.NewScanner(c); in.Scan(); {
			if in.Text() != "PING" {
				return
			}
			_, _ = c.Write([]byte("PONG\n"))
		}
	})
	for _, reuse := range []bool{true, false} {
		p := probeOf(t, &model.HealthCheck{
			Timeout: 5 * time.Second, ReuseConnection: reuse,
			TCP: &model.TCPCheck{Send: []byte("PING\n"), Receive: [][]byte{[]byte("PONG\n")}},
		}, address)
		for range 3 {
			if got := attempt(t, p); got != Passed {
				t.Fatalf("got %q", got)
			}
		}
		if want := map[bool]int{true: 1, false: 3}[reuse]; len(accepted) != want {
			t.Errorf("reuse_connection %t: %d connections, want %d", reuse, len(accepted), want)
		}
		for len(accepted) > 0 {
			<-accepted
		}
	}
}

func TestCheckGoesWhereItIsConfigured(t *testing.T) {
	own := netip.MustParseAddrPort("127.0.0.1:80")
	for _, test := range []struct {
		ip   netip.Addr
		port uint16
		want string
	}{
		{netip.Addr{}, 0, "127.0.0.1:80"},
		{netip.Addr{}, 81, "127.0.0.1:81"},
		{netip.MustParseAddr("::1"), 0, "[::1]:80"},
		{netip.MustParseAddr("127.0.0.2"), 82, "127.0.0.2:82"},
	} {
		check := model.EndpointCheck{Address: netip.AddrPortFrom(test.ip, test.port)}
		if got := checkAddress(model.Endpoint{Address: own, Check: check}).String(); got != test.want {
			t.Errorf("%v: got %s, want %s", check.Address, got, test.want)
		}
	}
}
