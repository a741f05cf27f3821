// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
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
	f := newFront(t, list(recorder(t, bodies)), mirroring(recorder(t, copied)))
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
	eventually(t, "all copies have ended", func() bool { return f.proxy.mirrors.Load() == 0 })
}

func TestBodyThatIsTooLongIsNotCopied(t *testing.T) {
	bodies, copied := make(chan string, 1), make(chan string, 1)
	f := newFront(t, list(recorder(t, bodies)), mirroring(recorder(t, copied)))
	f.exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 65537\r\n\r\n" + strings.Repeat("b", maxMirrorBody+1))
	if body := <-bodies; len(body) != maxMirrorBody+1 {
		t.Errorf("the endpoint got %d bytes", len(body))
	}
	if n := f.proxy.mirrors.Load(); n != 0 || len(copied) != 0 {
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
	if n := f.proxy.mirrors.Load(); n != maxMirrors {
		t.Errorf("%d copies under way, want %d", n, maxMirrors)
	}
	f.proxy.Close()
	eventually(t, "the copies end with the proxy", func() bool { return f.proxy.mirrors.Load() == 0 })
}
