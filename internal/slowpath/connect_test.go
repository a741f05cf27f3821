// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/test/tcptest"
)

const connect = "CONNECT a:80 HTTP/1.1\r\nHost: b\r\n\r\n"

// connectRoute makes the route one for CONNECT.
func connectRoute(terminate bool) frontOption {
	return func(_ *Config, r *model.Route) {
		r.Path, r.Upgrades, r.TerminateConnect = matcher.PathMatch{Kind: matcher.PathConnect}, []string{model.UpgradeConnect}, terminate
	}
}

// shouting answers with head and, at the end of what it reads, with that in
// upper case.
func shouting(t testing.TB, heads chan<- string, head string) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		if head != "" {
			heads <- readHeadOf(r)
			_, _ = io.WriteString(conn, head)
		}
		all, _ := io.ReadAll(r) // until the half close
		_, _ = conn.Write(bytes.ToUpper(all))
	})
}

func TestServeTunnelsConnect(t *testing.T) {
	tests := []struct {
		name, request, answer string // answer of the endpoint; none when CONNECT is terminated
		seen, want            string // what the endpoint and the client see, CR left out
	}{
		{
			"forwarded", "CONNECT a:80 HTTP/1.1\r\nHost: b\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nX-A: b\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 200 Fine\r\nX-C: d\r\n\r\n",
			"CONNECT a:80 HTTP/1.1\nHost: a:80\nX-A: b\n\n", "HTTP/1.1 200 Fine\nX-C: d\n\n",
		},
		{
			"framing of a success means nothing", connect, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
			"CONNECT a:80 HTTP/1.1\nHost: a:80\n\n", "HTTP/1.1 200 OK\n\n",
		},
		{
			"informational", connect, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
			"CONNECT a:80 HTTP/1.1\nHost: a:80\n\n", "HTTP/1.1 103 Early Hints\nLink: x\n\nHTTP/1.1 204 No Content\n\n",
		},
		{
			"version 1.0", "CONNECT [::1]:80 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
			"CONNECT [::1]:80 HTTP/1.1\nHost: [::1]:80\n\n", "HTTP/1.0 200 OK\n\n",
		},
		{"terminated", connect, "", "", "HTTP/1.1 200 OK\nDate: D\n\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			heads := make(chan string, 1)
			f := newFront(t, list(shouting(t, heads, tc.answer)), connectRoute(tc.answer == ""), routeTimeout(time.Second))
			conn := f.dial()
			// Early bytes, and bytes that outlive the route's timeout, which must not apply.
			_, _ = io.WriteString(conn, tc.request+"early ")
			r := bufio.NewReader(conn)
			got := readHeadOf(r)
			if strings.Contains(tc.want, " 103 ") {
				got += readHeadOf(r)
			}
			<-time.After(1200 * time.Millisecond)
			_, _ = io.WriteString(conn, "late")
			_ = conn.(*net.TCPConn).CloseWrite()
			if payload, err := io.ReadAll(r); err != nil || string(payload) != "EARLY LATE" {
				t.Errorf("payload %q, %v", payload, err)
			}
			if diff := cmp.Diff(tc.want, undated(got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if tc.seen != "" {
				if diff := cmp.Diff(tc.seen, strings.ReplaceAll(<-heads, "\r", "")); diff != "" {
					t.Errorf("endpoint's head (-want +got):\n%s", diff)
				}
			}
			eventually(t, "the use of the endpoint ends well", func() bool {
				_, outcomes := f.balancer.seen()
				return len(outcomes) == 1 && outcomes[0].Err == nil && outcomes[0].Status/100 == 2
			})
		})
	}
}

// undated leaves CR and the date out.
func undated(head string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(strings.ReplaceAll(head, "\r", ""), "\n") {
		if strings.HasPrefix(line, "Date: ") {
			line = "Date: D\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestServePassesHalfClosesOfEndpointsOn(t *testing.T) {
	received := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = io.WriteString(conn, "first")
		_ = conns.CloseWrite(conn)
		got, _ := io.ReadAll(r)
		received <- string(got)
	})
	f := newFront(t, list(endpoint), connectRoute(true))
	conn := f.dial()
	_, _ = io.WriteString(conn, connect)
	r := bufio.NewReader(conn)
	readHeadOf(r)
	if got, err := io.ReadAll(r); err != nil || string(got) != "first" {
		t.Errorf("got %q, %v", got, err)
	}
	_, _ = io.WriteString(conn, "last")
	_ = conns.CloseWrite(conn)
	if got := <-received; got != "last" {
		t.Errorf("endpoint got %q", got)
	}
}

func TestServeAnswersConnectThatHasNoTunnel(t *testing.T) {
	ends := func(_ *Config, r *model.Route) { r.TerminateConnect = true }
	refused := func(t testing.TB) netip.AddrPort {
		return saying(t, "HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno, and bytes behind it")
	}
	tests := []struct {
		name, request string
		endpoint      func(testing.TB) netip.AddrPort
		option        frontOption
		status        string
		flag          Flag
		body          string
	}{
		{"no port", "CONNECT nowhere HTTP/1.1\r\nHost: b\r\n\r\n", nil, allow("connect"), "400 Bad Request", FlagDownstreamProtocolError, "Bad Request"},
		{"only a prefix", connect, nil, func(_ *Config, r *model.Route) { r.Path.Kind = matcher.PathPrefix }, "404 Not Found", FlagNoRoute, ""},
		{"not allowed", connect, nil, allow("websocket"), "403 Forbidden", FlagNone, ""},
		{
			"an upgrade that is not allowed beside it", "CONNECT a:80 HTTP/1.1\r\nHost: b\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
			nil, allow("connect"), "403 Forbidden", FlagNone, "",
		},
		{
			"CONNECT that is not allowed beside an upgrade", "CONNECT a:80 HTTP/1.1\r\nHost: b\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
			nil, allow("websocket"), "403 Forbidden", FlagNone, "",
		},
		{"no endpoint", connect, nil, ends, "503 Service Unavailable", FlagNoHealthyUpstream, "no healthy upstream"},
		{"dead endpoint", connect, tcptest.Refusing, ends, "503 Service Unavailable", FlagUpstreamConnectFailure, resetBeforeHeaders + "remote connection failure"},
		{"endpoint refuses", connect, refused, allow("connect"), "407 No", FlagNone, "no"},
		{"endpoint closes", connect, func(t testing.TB) netip.AddrPort { return saying(t, "") }, allow("connect"), "503 Service Unavailable", FlagUpstreamTermination, resetBeforeHeaders + "connection termination"},
		{"endpoint talks nonsense", connect, nonsense, allow("connect"), "502 Bad Gateway", FlagUpstreamProtocolError, resetBeforeHeaders + "protocol error"},
		{"endpoint switches to HTTP's other way", connect, switching, allow("connect"), "502 Bad Gateway", FlagUpstreamProtocolError, resetBeforeHeaders + "protocol error"},
		{"endpoint says nothing", connect, silent, withLimits(Limits{StreamIdle: 200 * time.Millisecond}), "408 Request Timeout", FlagStreamIdle, "stream timeout"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var endpoints []netip.AddrPort
			if tc.endpoint != nil {
				endpoints = list(tc.endpoint(t))
			}
			f := newFront(t, endpoints, connectRoute(false), routeTimeout(100*time.Millisecond), tc.option)
			// A request behind it must not be read as one.
			head, body, _ := strings.Cut(f.exchange(tc.request+get), "\r\n\r\n")
			if !strings.HasPrefix(head, "HTTP/1.1 "+tc.status+"\r\n") || !strings.Contains(head, "Connection: close") {
				t.Errorf("head %q, want %s and a close", head, tc.status)
			}
			if body != tc.body {
				t.Errorf("body %q, want %q", body, tc.body)
			}
			if n := f.proxy.Counters().Flag(tc.flag); n != 1 {
				t.Errorf("flag %v counted %d times", tc.flag, n)
			}
		})
	}
}

func TestServeEndsIdleTunnels(t *testing.T) {
	ended := make(chan struct{})
	endpoint := rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) {
		_, _ = io.Copy(io.Discard, r)
		close(ended)
	})
	f := newFront(t, list(endpoint), connectRoute(true), withLimits(Limits{StreamIdle: 50 * time.Millisecond}))
	if got := f.exchange(connect); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("got %q", got)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the endpoint's connection is still open")
	}
}
