// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// What Envoy 1.40 answers, too: TestVersionsAsEnvoy of test/e2e.
func TestHTTP10IsServedAsTheListenerSays(t *testing.T) {
	accept := model.HTTP10{Accept: true}
	named := model.HTTP10{Accept: true, DefaultHost: "old.test"}
	for _, tt := range []struct {
		name, head string
		rule       model.HTTP10
		status     string
		host       string // that the endpoint gets
	}{
		{"refused", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", model.HTTP10{}, "426 Upgrade Required", ""},
		{"refused, whatever the default host", "GET / HTTP/1.0\r\n\r\n", model.HTTP10{DefaultHost: "old.test"}, "426 Upgrade Required", ""},
		{"refused, without a route", "OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", model.HTTP10{}, "426 Upgrade Required", ""},
		{"accepted", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", accept, "200 OK", "a"},
		{"no host", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", accept, "400 Bad Request", ""},
		{"no host, without a route", "OPTIONS * HTTP/1.0\r\n\r\n", accept, "400 Bad Request", ""},
		{"the default host", "GET / HTTP/1.0\r\n\r\n", named, "200 OK", "old.test"},
		{"a host and a default one", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", named, "200 OK", "a"},
		{"a host in the target", "GET http://b/ HTTP/1.0\r\n\r\n", named, "200 OK", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := ""
			served := httpEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
				host = r.Host
				_, _ = io.WriteString(w, "ok")
			})
			f := newFront(t, list(served), withVersions(tt.rule))
			got := f.exchange(tt.head)
			if !strings.HasPrefix(got, "HTTP/1.0 "+tt.status) || host != tt.host {
				t.Errorf("the endpoint got host %q, the client %q", host, got)
			}
			if tt.host == "" && !strings.Contains(got, "\r\nConnection: close\r\n") {
				t.Errorf("a refusal keeps the connection: %q", got)
			}
		})
	}
}

// HTTP/0.9 is answered as by Envoy 1.40, whatever the listener says.
func TestHTTP09IsToldToUpgrade(t *testing.T) {
	f := newFront(t, list(silent(t)))
	for _, tt := range []struct{ head, want string }{
		{"GET /case\r\n\r\n", "426 Upgrade Required"},
		{"GET /case\r\n", "426 Upgrade Required"},
		{"GET /case \r\nHost: a\r\n\r\n", "426 Upgrade Required"},
		{"POST /case\r\nHost: a\r\n\r\n", "426 Upgrade Required"},
		{"GET /case HTTP/0.9\r\nHost: a\r\n\r\n", "426 Upgrade Required"},
		{"GET /case HTTP/00.9\r\nHost: a\r\n\r\n", "400 Bad Request"},
		{"GET case\r\nHost: a\r\n\r\n", "400 Bad Request"},
		{"GET\r\nHost: a\r\n\r\n", "400 Bad Request"},
		{"GET /case HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request"},
	} {
		if got := f.exchange(tt.head); !strings.HasPrefix(got, "HTTP/1.1 "+tt.want) || !strings.Contains(got, "\r\nConnection: close\r\n") {
			t.Errorf("%q: got %q, want %s", tt.head, got, tt.want)
		}
	}
}

func withVersions(rule model.HTTP10) frontOption {
	return func(c *Config, _ *model.Route) {
		table := activeOf(c).routes
		activeOf(c).routes = func(listener string) (*model.RouteTable, bool) {
			t, ok := table(listener)
			t.HTTP10 = rule
			return t, ok
		}
	}
}
