// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// TestHeadersThatEnvoyHasAreMatched asks for X-Forwarded-Proto, which a request has to Envoy although its client has sent none, and for Upgrade,
// which it has only with Connection; test/routes has all matches, in user space.
func TestHeadersThatEnvoyHasAreMatched(t *testing.T) {
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		_, addresses := origins(t, place, "plain", "secure")
		route := func(name, value string, action map[string]any) any {
			match := map[string]any{"prefix": "/", "headers": []any{map[string]any{"name": name, "string_match": map[string]any{"exact": value}}}}
			action["match"] = match
			return action
		}
		to := func(cluster string) map[string]any {
			return map[string]any{"route": map[string]any{"cluster": cluster}}
		}
		b := start(harness.Config{
			Listeners: []harness.Listener{{Address: service, Upgrades: []harness.Upgrade{{Type: "websocket"}}, Table: map[string]any{
				"name": "all", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": []any{
					route("upgrade", "websocket", map[string]any{"direct_response": map[string]any{"status": 418}}),
					route("x-forwarded-proto", "https", to("secure")), route("x-forwarded-proto", "http", to("plain")),
				}}},
			}}},
			Clusters: []harness.Cluster{{Name: "plain", Endpoints: addresses[:1]}, {Name: "secure", Endpoints: addresses[1:]}},
		})
		for _, tt := range []struct{ fields, want string }{
			{"", "plain"}, {"X-Forwarded-Proto: http\r\n", "plain"}, {"x-forwarded-proto: https\r\n", "secure"}, {"X-Forwarded-Proto: HTTPS\r\n", "404"},
			{"X-Forwarded-Proto: a\r\nX-Forwarded-Proto: http\r\n", "404"}, {"Upgrade: websocket\r\n", "plain"}, {"Connection: Upgrade\r\n", "plain"},
			{"Connection: Upgrade\r\nUpgrade: websocket\r\n", "418"}, {"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n", "418"},
			{"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", "plain"},
		} {
			report := runExchange(t, place, service, 20*time.Second,
				programs.Step{Send: "GET /x HTTP/1.1\r\nHost: e2e.test\r\n" + tt.fields + "\r\n"}, programs.Step{Receive: true})
			if len(report.Replies) != 1 {
				t.Fatalf("%q: %+v", tt.fields, report)
			}
			got := report.Replies[0].Identity
			if got == "" {
				got = fmt.Sprint(report.Replies[0].Status)
			}
			if got != tt.want {
				t.Errorf("%q: answered by %s, want %s", tt.fields, got, tt.want)
			}
		}
		if b.IsEnvoy() || !harness.FastPath(t) || t.Name() != "TestHeadersThatEnvoyHasAreMatched/fast-path=on" {
			return
		}
		if fast, slow := b.Served(t); fast == 0 {
			t.Errorf("no request on the fast path, %.0f slow", slow)
		}
	})
}
