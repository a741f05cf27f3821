// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// envoyHeadersFront serves a table whose routes all lead to an endpoint that tells of its requests, and adds headers by a rule.
func envoyHeadersFront(t *testing.T, rule *rewrite.EnvoyHeaders, heads chan<- http.Header) *front {
	t.Helper()
	table := &model.RouteTable{EnvoyHeaders: rule, VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{{
		Upgrades: []string{"websocket"}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}},
	}}}}}
	endpoint := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	return newFront(t, list(endpoint), func(c *Config, _ *model.Route) {
		activeOf(c).routes = func(string) (*model.RouteTable, bool) { return table, true }
	})
}

func exchanged(t *testing.T, f *front, head string) *http.Response {
	t.Helper()
	c := f.dial()
	if _, err := io.WriteString(c, head+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// test/routes compares what is added with Envoy's. Here is what its requests do not reach.
func TestEnvoyHeadersAreAddedToEveryAnswer(t *testing.T) {
	heads := make(chan http.Header, 1)
	f := envoyHeadersFront(t, &rewrite.EnvoyHeaders{GenerateRequestID: true, RequestIDInResponse: true, ServerName: "me", Via: "1.1 me"}, heads)
	malformed := exchanged(t, f, "GET / HTTP/1.1\r\nHost: a\r\nbad header")
	if h := malformed.Header; malformed.StatusCode != http.StatusBadRequest || h.Get("Server") != "me" || h.Get("Via") != "1.1 me" || h["X-Request-Id"] != nil {
		t.Errorf("malformed: %d, %v", malformed.StatusCode, h)
	}
	served := exchanged(t, f, "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-request-id\r\nX-Request-Id: mine\r\nVia: 1.0 b")
	seen := <-heads
	if id := seen.Get("X-Request-Id"); id == "mine" || id == "" || served.Header.Get("X-Request-Id") != id {
		t.Errorf("a field that Connection names: the endpoint got %q, the client %q", id, served.Header.Get("X-Request-Id"))
	}
	if via := seen.Get("Via"); via != "1.0 b, 1.1 me" {
		t.Errorf("via %q", via)
	}
	if took := served.Header.Get("X-Envoy-Upstream-Service-Time"); len(took) == 0 || strings.Trim(took, "0123456789") != "" {
		t.Errorf("service time %q", took)
	}
	upgrade := exchanged(t, f, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket")
	if _, known := upgrade.Header["X-Envoy-Upstream-Service-Time"]; known || upgrade.Header.Get("Server") != "me" {
		t.Errorf("upgrade: %v", upgrade.Header)
	}
}
