// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// mirroring sends copies of the route's requests to a cluster with that endpoint.
func mirroring(endpoint netip.AddrPort) frontOption {
	return func(c *Config, r *model.Route) {
		c.Balancer.(*fakeBalancer).endpoints["copies"] = list(endpoint)
		r.Mirrors = []model.Mirror{{Cluster: "copies"}}
	}
}

// recorder answers each request with nothing, and reports its body.
func recorder(t *testing.T, bodies chan<- string) netip.AddrPort {
	return httpEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body) + strings.Join(r.Trailer["X-T"], "")
	})
}

func TestCopiesHaveWholeBodies(t *testing.T) {
	bodies, copied := make(chan string, 1), make(chan string, 1)
	f := newFront(t, list(recorder(t, bodies)), mirroring(recorder(t, copied)), enableTrailers(true, true))
	long := strings.Repeat("b", maxMirrorBody)
	for _, tt := range []struct{ name, framing, body, want string }{
		{"none", "", "", ""},
		{"length", "Content-Length: 3\r\n", "abc", "abc"},
		{"long", "Content-Length: 65536\r\n", long, long},
		{"chunks and trailer", "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n", "1\r\na\r\n2\r\nbc\r\n0\r\nX-T: d\r\n\r\n", "abcd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + tt.framing + "\r\n" + tt.body)
			if !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("the client got %q", got)
			}
			if original := <-bodies; original != tt.want {
				t.Errorf("the endpoint got %d bytes, want %d", len(original), len(tt.want))
			}
			if body := <-copied; body != tt.want {
				t.Errorf("the copy has %d bytes, want %d", len(body), len(tt.want))
			}
		})
	}
	eventually(t, "all copies have ended", func() bool { return f.proxy.CopyUsage().Taken == 0 })
}

func TestBodyThatIsTooLongIsNotCopied(t *testing.T) {
	bodies, copied := make(chan string, 1), make(chan string, 1)
	f := newFront(t, list(recorder(t, bodies)), mirroring(recorder(t, copied)))
	f.exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 65537\r\n\r\n" + strings.Repeat("b", maxMirrorBody+1))
	if body := <-bodies; len(body) != maxMirrorBody+1 {
		t.Errorf("the endpoint got %d bytes", len(body))
	}
	if n := f.proxy.CopyUsage().Taken; n != 0 || len(copied) != 0 {
		t.Errorf("%d copies under way, %d sent", n, len(copied))
	}
}

// A mirror that never answers delays nobody, and holds no more than the bound.
func TestCopiesAreBoundedAndWaitedForByNobody(t *testing.T) {
	f := newFront(t, list(httpEndpoint(t, func(http.ResponseWriter, *http.Request) {})), mirroring(silent(t)))
	client := f.client()
	for range maxMirrors + 10 {
		response, err := client.Get("http://a/")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if n := f.proxy.CopyUsage().Taken; n != maxMirrors {
		t.Errorf("%d copies under way, want %d", n, maxMirrors)
	}
	f.proxy.Close()
	eventually(t, "the copies end with the proxy", func() bool { return f.proxy.CopyUsage().Taken == 0 })
}

// One that has room for one request gets one at a time, and as many wait as may.
func TestCopiesPassTheCircuitBreakersOfTheirCluster(t *testing.T) {
	const requests, waiting = 20, 3
	var mu sync.Mutex
	var open, most, served int
	release := make(chan struct{})
	answer := sync.OnceFunc(func() { close(release) })
	mirror := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for readHeadOf(r) != "" {
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
			<-release
			mu.Lock()
			open--
			served++
			mu.Unlock()
			_, _ = io.WriteString(conn, ok2)
		}
	})
	f := newFront(t, list(httpEndpoint(t, func(http.ResponseWriter, *http.Request) {})), mirroring(mirror), func(c *Config, _ *model.Route) {
		clusters := activeOf(c).cluster
		activeOf(c).cluster = func(name string) *model.Cluster {
			cluster := clusters(name)
			if name == "copies" {
				cluster.Breakers[model.PriorityDefault] = &model.Breakers{MaxConnections: 1, MaxPending: waiting, MaxRequests: 1000, MaxRetries: 3}
			}
			return cluster
		}
	})
	t.Cleanup(answer)
	for range requests {
		f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	}
	eventually(t, "the copies that have no room are left out", func() bool { return f.proxy.CopyUsage().Taken == 1+waiting })
	answer()
	eventually(t, "the copies have ended", func() bool { return f.proxy.CopyUsage().Taken == 0 })
	mu.Lock()
	defer mu.Unlock()
	if most != 1 || served != 1+waiting {
		t.Errorf("%d at once, %d in all; want 1, %d", most, served, 1+waiting)
	}
}
