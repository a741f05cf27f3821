// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// endpoint runs a server that answers with the request that it saw, or returns an
// address where nobody listens for the cluster "dead".
func endpoint(t testing.TB, cluster string) netip.AddrPort {
	t.Helper()
	if cluster == "dead" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return netip.MustParseAddrPort(l.Addr().String())
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body of %s: %v", r.RequestURI, err)
		}
		text := fmt.Sprintf("cluster %s\n%s %s\nhost: %s\n%s\n\n%s", cluster, r.Method, r.RequestURI, r.Host, strings.Join(normal(r.Header), "\n"), body)
		w.Header()["X-Up"] = []string{"1"}
		w.Header()["X-List"] = []string{"a", "b"}
		w.Header()["Cache-Control"] = []string{"no-cache"}
		w.Header()["X-Seen"] = []string{fmt.Sprintf("%q", text)} // for HEAD
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}
