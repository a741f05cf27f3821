// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestForwardedHostIsAddedToWhatProxiesBeforeHaveSaid(t *testing.T) {
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.WriteString(conn, okLine+"Content-Length: 0\r\n\r\n")
	})
	f := newFront(t, list(endpoint), func(_ *Config, r *model.Route) {
		r.Host = rewrite.HostRewrite{Literal: "new.test", AppendForwarded: true}
	})
	conn := f.dial()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: old.test\r\nX-Forwarded-Host: older.test\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	head := <-heads
	if !strings.Contains(head, "Host: new.test\r\n") || !strings.Contains(head, "X-Forwarded-Host: older.test\r\nX-Forwarded-Host: old.test\r\n") {
		t.Errorf("the endpoint got %q", head)
	}
}

// A host that a rewrite makes stands in the request line of a CONNECT, which goes on only if it is still one line.
func TestRewrittenHostOfAConnectIsAHost(t *testing.T) {
	for _, c := range []struct{ host, line, status string }{
		{"new.test:81", "CONNECT new.test:81 HTTP/1.1\r\n", "HTTP/1.1 200 "},
		{"", "CONNECT a:80 HTTP/1.1\r\n", "HTTP/1.1 200 "},
		{"new.test HTTP/1.1", "", "HTTP/1.1 400 "},
		{"a b", "", "HTTP/1.1 400 "},
		{"/a", "", "HTTP/1.1 400 "},
		{"\x80", "", "HTTP/1.1 400 "},
	} {
		t.Run(c.host, func(t *testing.T) {
			heads := make(chan string, 1)
			f := newFront(t, list(shouting(t, heads, "HTTP/1.1 200 OK\r\n\r\n")), connectRoute(false), func(_ *Config, r *model.Route) {
				r.Host = rewrite.HostRewrite{Header: "x-to"}
			})
			conn := f.dial()
			_, _ = io.WriteString(conn, "CONNECT a:80 HTTP/1.1\r\nHost: b\r\nX-To: "+c.host+"\r\n\r\n")
			got := readHeadOf(bufio.NewReader(conn))
			_ = conn.Close() // which ends the tunnel
			if !strings.HasPrefix(got, c.status) {
				t.Errorf("got %q, want %s", got, c.status)
			}
			select {
			case head := <-heads:
				if c.line == "" || !strings.HasPrefix(head, c.line) {
					t.Errorf("the endpoint got %q, want %q", head, c.line)
				}
			default:
				if c.line != "" {
					t.Errorf("the endpoint got nothing, want %q", c.line)
				}
			}
		})
	}
}

// What Envoy makes of these is asked in test/routes.
func TestRewritesThatLeaveNoPathOrNoHostGoOn(t *testing.T) {
	heads := make(chan string, 1)
	endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		heads <- readHeadOf(r)
		_, _ = io.WriteString(conn, okLine+"Content-Length: 0\r\n\r\n")
	})
	for _, c := range []struct {
		name       string
		path, host *matcher.Substitution
		want       string
	}{
		{"no path", substitution(t, "^.*$", ""), nil, "GET /svc?q HTTP/1.1\r\nHost: old.test\r\n"},
		{"a path without a slash", substitution(t, "^/", ""), nil, "GET svc?q HTTP/1.1\r\nHost: old.test\r\n"},
		{"a host that the expression does not find", nil, substitution(t, "^/none/(.*)$", `\1`), "GET /svc?q HTTP/1.1\r\nHost: /svc\r\n"},
		{"no host", nil, substitution(t, "^.*$", ""), "GET /svc?q HTTP/1.1\r\nHost: old.test\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, list(endpoint), func(_ *Config, r *model.Route) { r.Rewrite.Regex, r.Host.Path = c.path, c.host })
			got := f.exchange("GET /svc?q HTTP/1.1\r\nHost: old.test\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Fatalf("got %q", got)
			}
			if head := <-heads; !strings.HasPrefix(head, c.want) {
				t.Errorf("the endpoint got %q, want %q", head, c.want)
			}
		})
	}
}

func substitution(t *testing.T, regex, with string) *matcher.Substitution {
	t.Helper()
	s, err := matcher.NewSubstitution(regex, with)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
