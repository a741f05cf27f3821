// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// copies are requests that mirror clusters saw, by the number of the request, of Envoy and of XLB.
type copies struct {
	mu         sync.Mutex
	envoy, xlb map[string][]string // guarded by mu
	total      int                 // guarded by mu
}

func newCopies() *copies { return &copies{envoy: map[string][]string{}, xlb: map[string][]string{}} }

// endpoint runs a server of a mirror cluster.
func (c *copies) endpoint(t testing.TB, cluster string) netip.AddrPort {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body of %s: %v", r.RequestURI, err)
		}
		c.add(cluster, r, body)
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// add takes a copy, without what Envoy alone adds to it, unasked.
func (c *copies) add(cluster string, r *http.Request, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	into := c.xlb
	if r.Header.Get("X-Envoy-Internal") != "" {
		into = c.envoy
		c.total++
		r.Header.Del("X-Envoy-Internal")
		hops := strings.Join(r.Header["X-Forwarded-For"], ",")
		r.Header.Del("X-Forwarded-For")
		if i := strings.LastIndexByte(hops, ','); i >= 0 {
			r.Header["X-Forwarded-For"] = []string{hops[:i]}
		}
	}
	id := r.Header.Get("X-Id")
	into[id] = append(into[id], fmt.Sprintf("cluster %s\n%s %s\nhost: %s\n%s\n\n%s", cluster, r.Method, r.RequestURI, r.Host, strings.Join(normal(r.Header), "\n"), body))
}

// requireEqual waits until both have sent the same copies, and forgets them.
func (c *copies) requireEqual(t *testing.T, excepted map[string]bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		diff := c.diff(excepted)
		if diff == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("copies (-Envoy +XLB):\n%s", diff)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.envoy)
	clear(c.xlb)
}

func (c *copies) diff(excepted map[string]bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []map[string][]string{c.envoy, c.xlb} {
		maps.DeleteFunc(m, func(id string, list []string) bool {
			slices.Sort(list)
			return excepted[id]
		})
	}
	return cmp.Diff(c.envoy, c.xlb)
}

// isExcepted tells requests whose copies differ, as docs/limits.md says: of a request whose body is not read there
// is none, and an IPv6 address keeps its form.
func isExcepted(r *Request, status int) bool {
	return r.Host[0] == '[' || r.Body != "" && status == http.StatusServiceUnavailable
}
