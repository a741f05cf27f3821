// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/proxytest"
)

// What explain says is refused the slow path refuses, with the same status, and forwards all else.
func TestExplainSaysWhatIsRefused(t *testing.T) {
	table := &model.RouteTable{Underscores: rewrite.RefuseUnderscores, VirtualHosts: []*model.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*model.Route{
		{Path: matcher.PathMatch{Kind: matcher.PathExact, Value: "/ws"}, Upgrades: []string{"websocket"}, Clusters: []model.WeightedCluster{{Name: "none", Weight: 1}}},
		{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "none", Weight: 1}}},
		{Path: matcher.PathMatch{Kind: matcher.PathConnect}, Clusters: []model.WeightedCluster{{Name: "none", Weight: 1}}},
	}}}}
	cfg := &model.Config{Listeners: []*model.Listener{{Name: "web", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: table}}}
	// What is forwarded finds no cluster, and is answered 503.
	proxy := slowpath.New(slowpath.Config{Active: proxytest.Active(cfg)})
	defer proxy.Close()
	many := strings.Split(strings.Repeat("x: y\n", 120), "\n")
	for _, c := range []struct {
		method, path, host string
		headers            []string
		why                string
	}{
		{method: "GET"}, {method: "get", why: "another case"}, {method: "Post", why: "another case"}, {method: "x-own"}, {method: "TRACE"},
		{method: "GET", headers: []string{"transfer-encoding: gzip"}, why: "only chunked"}, {method: "POST", headers: []string{"transfer-encoding: gzip, chunked"}, why: "only chunked"},
		{method: "GET", headers: []string{"transfer-encoding: chunked", "content-length: 0"}, why: "one of both"},
		{method: "GET", headers: []string{"content-length: 0", "content-length: 0"}, why: "one of both"}, {method: "GET", headers: []string{"content-length: 0"}},
		{method: "GET", headers: []string{"content-length: +0"}, why: "want a number"}, {method: "GET", headers: []string{"content-length: "}, why: "want a number"},
		{method: "GET", headers: []string{"content-length: 99999999999999999999"}, why: "want a number"},
		{method: "GET", headers: []string{"content-length: x", "transfer-encoding: gzip"}, why: "want a number"},
		{method: "GET", headers: []string{"transfer-encoding: gzip", "content-length: x"}, why: "only chunked"},
		{method: "GET", headers: []string{"transfer-encoding: chunked", "trailer: a, Content-Length"}, why: "frames the message"}, {method: "GET", headers: []string{"trailer: content-length"}},
		{method: "GET", headers: []string{"connection: close, Host"}, why: "connection lists host"}, {method: "GET", headers: []string{"connection: x-forwarded-for"}, why: "connection lists"},
		{method: "GET", headers: []string{"connection: :path"}, why: "connection lists"}, {method: "GET", headers: []string{"connection: a,b,c,d,e,f,g,h,i,j"}, why: "10 options"},
		{method: "GET", headers: []string{"connection: a,b,c,d,e,,f,g,h,i"}}, {method: "GET", headers: many[:99]}, {method: "GET", headers: many[:100], why: "101 fields"},
		{method: "GET", headers: []string{"host: a b"}, why: "host"}, {method: "GET", headers: []string{"host: :80"}, why: "host"}, {method: "GET", headers: []string{"host: u@h"}, why: "host"},
		{method: "GET", headers: []string{"a_b: c"}, why: "headers_with_underscores_action"},
		{method: "GET", headers: []string{"connection: upgrade", "upgrade: websocket"}, why: "upgrade_configs"}, {method: "GET", headers: []string{"upgrade: websocket"}},
		{method: "GET", headers: []string{"connection: upgrade", "upgrade: h2c"}}, {method: "GET", path: "/ws", headers: []string{"connection: upgrade", "upgrade: WebSocket"}},
		{method: "GET", path: "/ws", headers: []string{"connection: upgrade", "upgrade: other"}, why: "upgrade_configs"},
		{method: "CONNECT", why: "want host:port"}, {method: "CONNECT", host: "127.80.0.1:80", why: "upgrade_configs"},
		{method: "CONNECT", host: "127.80.0.1:80", headers: []string{"content-length: 1"}, why: "with a body"},
		{method: "CONNECT", host: "127.80.0.1:80", headers: []string{"transfer-encoding: chunked"}, why: "with a transfer-encoding"},
	} {
		if c.host == "" {
			c.host = "127.80.0.1"
		}
		if c.path == "" {
			c.path = "/"
		}
		name := fmt.Sprintf("%s %s%s %.60q", c.method, c.host, c.path, c.headers)
		state, head := explain.Compiled(cfg), ""
		decide := state.Decide
		state.Decide = func(l *model.Listener, r *matcher.Request, sent []byte) (explain.Decision, error) {
			head = string(sent)
			return decide(l, r, sent)
		}
		a, err := explain.Explain(state, &explain.Query{Method: c.method, URL: "http://" + c.host + c.path, Headers: c.headers})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		refused := a.Action != nil && a.Action.Kind == explain.Refused
		if refused != (c.why != "") || refused && !strings.Contains(a.Action.Because, c.why) || refused && a.Kernel.Fast || a.Disagreement != "" {
			t.Errorf("%s: got %+v, want it refused because of %q", name, a.Action, c.why)
			continue
		}
		want := http.StatusServiceUnavailable
		if refused {
			want = a.Action.Status
		}
		if got := slowStatus(t, proxy, head); got != want {
			t.Errorf("%s: the slow path answers %d, explain says %d, %+v", name, got, want, a.Action)
		}
	}
}

// slowStatus is the slow path's answer to a head.
func slowStatus(t *testing.T, proxy *slowpath.Proxy, head string) int {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = proxy.Serve(t.Context(), server, slowpath.Session{Listener: "web"})
	}()
	_ = client.SetDeadline(time.Now().Add(await.Patience))
	go func() { _, _ = client.Write([]byte(head)) }()
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatalf("%.200q: %v", head, err)
	}
	answer.Body.Close()
	client.Close()
	<-done
	return answer.StatusCode
}
