// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// Addresses of the endpoints of sessions; nobody listens at deadAddr.
var (
	stickyAddrs = []netip.Addr{netip.MustParseAddr("127.98.0.1"), netip.MustParseAddr("127.98.0.2")}
	deadAddr    = netip.MustParseAddr("127.98.0.7")
)

const (
	sessionFilter = "envoy.filters.http.stateful_session"
	sessionType   = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession"
	stateType     = "type.googleapis.com/envoy.extensions.http.stateful_session."
)

// stickyOrigins tell their addresses. The second one fails for /retry.
func stickyOrigins(t *testing.T) (port uint16) {
	t.Helper()
	for i, a := range stickyAddrs {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, port).String())
		if err != nil {
			t.Fatal(err)
		}
		port = netip.MustParseAddrPort(l.Addr().String()).Port()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 1 && r.URL.Path == "/retry" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			if r.URL.Path == "/own" {
				w.Header().Set("Set-Cookie", "own=1")
				w.Header().Set("X-Host", "own")
			}
			_, _ = io.WriteString(w, a.String())
		})}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
	}
	return port
}

func cookieState(cookie map[string]any) map[string]any {
	return map[string]any{"session_state": map[string]any{"name": "envoy.http.stateful_session.cookie", "typed_config": map[string]any{
		"@type": stateType + "cookie.v3.CookieBasedSessionState", "cookie": cookie,
	}}}
}

func headerState(name string) map[string]any {
	return map[string]any{"session_state": map[string]any{"name": "envoy.http.stateful_session.header", "typed_config": map[string]any{
		"@type": stateType + "header.v3.HeaderBasedSessionState", "name": name,
	}}}
}

// stickyConfig has a route for each kind of session, and the filter's own for all others.
func stickyConfig(service netip.AddrPort, port uint16) harness.Config {
	at := func(status string, a netip.Addr) any {
		e := map[string]any{"endpoint": map[string]any{"address": map[string]any{"socket_address": map[string]any{"address": a.String(), "port_value": port}}}}
		if status != "" {
			e["health_status"] = status
		}
		return e
	}
	cluster := func(name string, statuses []any, endpoints ...any) harness.Cluster {
		fields := map[string]any{"load_assignment": map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": endpoints}}}}
		if statuses != nil {
			fields["common_lb_config"] = map[string]any{"override_host_status": map[string]any{"statuses": statuses}}
		}
		return harness.Cluster{Name: name, Fields: fields}
	}
	first, second := stickyAddrs[0], stickyAddrs[1]
	route := func(prefix, cluster string, session map[string]any) map[string]any {
		r := map[string]any{"match": map[string]any{"prefix": prefix}, "route": map[string]any{"cluster": cluster}}
		if session != nil {
			session["@type"] = sessionType + "PerRoute"
			r["typed_per_filter_config"] = map[string]any{sessionFilter: session}
		}
		return r
	}
	own := func(state map[string]any) map[string]any { return map[string]any{"stateful_session": state} }
	strict := with(cookieState(map[string]any{"name": "s", "path": "/strict"}), "strict", true)
	strict404 := with(with(cookieState(map[string]any{"name": "s"}), "strict", true), "status_on_strict_destination_not_found", 404)
	rich := cookieState(map[string]any{"name": "s", "ttl": "100s", "path": "/", "attributes": []any{
		map[string]any{"name": "SameSite", "value": "Lax"}, map[string]any{"name": "Secure"}}})
	retrying := route("/retry", "both", nil)
	retrying["route"].(map[string]any)["retry_policy"] = avoidingPrevious(retryOn("5xx", 1))
	rewritten := route("/rewritten", "both", own(cookieState(map[string]any{"name": "s", "path": "/rewritten"})))
	rewritten["route"].(map[string]any)["prefix_rewrite"] = "/"
	rewritten["response_headers_to_remove"] = []any{"set-cookie"}
	labelled := func(stage string, e any) any {
		e.(map[string]any)["metadata"] = asking(map[string]any{"stage": stage})
		return e
	}
	staged := cluster("staged", nil, labelled("prod", at("", first)), labelled("canary", at("", second)), labelled("prod", at("UNHEALTHY", deadAddr)))
	staged.Fields["lb_subset_config"] = map[string]any{"fallback_policy": "NO_FALLBACK", "subset_selectors": []any{map[string]any{"keys": []any{"stage"}}}}
	ofStage := func(prefix, stage string, session map[string]any) map[string]any {
		r := route(prefix, "staged", session)
		r["route"].(map[string]any)["metadata_match"] = asking(map[string]any{"stage": stage})
		return r
	}
	config := harness.Config{
		Listeners: []harness.Listener{{Address: service}},
		Clusters: []harness.Cluster{
			staged,
			cluster("both", nil, at("", first), at("", second)),
			cluster("sick", nil, at("", first), at("UNHEALTHY", second)),
			cluster("poor", nil, at("", first), at("DEGRADED", second)),
			cluster("ignored", []any{}, at("", first), at("", second)),
			cluster("picky", []any{"DRAINING"}, at("", first), at("DRAINING", second)),
			cluster("dead", nil, at("", deadAddr)),
			cluster("half", nil, at("", first), at("", deadAddr)),
		},
	}
	config.Listeners[0].Table = map[string]any{"name": "all", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": []any{
		route("/off", "both", map[string]any{"disabled": true}),
		ofStage("/prod", "prod", nil), ofStage("/canary", "canary", own(strict404)), ofStage("/dev", "dev", nil),
		route("/strict", "both", own(strict)), route("/404", "both", own(strict404)), route("/404sick", "sick", own(strict404)),
		route("/rich", "both", own(rich)), route("/header", "both", own(headerState("x-host"))), route("/own", "both", own(headerState("x-host"))),
		route("/sick", "sick", nil), route("/poor", "poor", nil), route("/ignored", "ignored", own(strict)), route("/picky", "picky", nil),
		route("/dead", "dead", nil), route("/half", "half", own(strict404)), retrying, rewritten,
		map[string]any{"match": map[string]any{"prefix": "/direct"}, "direct_response": map[string]any{"status": 200, "body": map[string]any{"inline_string": "direct"}}},
		map[string]any{"match": map[string]any{"prefix": "/shares"}, "route": map[string]any{"weighted_clusters": map[string]any{"clusters": []any{
			map[string]any{"name": "both", "weight": 1, "typed_per_filter_config": map[string]any{sessionFilter: map[string]any{
				"@type": sessionType + "PerRoute", "stateful_session": cookieState(map[string]any{"name": "share"})}}},
		}}}},
		route("/", "both", nil),
	}}}}
	filter := cookieState(map[string]any{"name": "s", "path": "/", "ttl": "120s"})
	filter["@type"] = sessionType
	config.Listeners[0].Manager = map[string]any{"http_filters": []any{
		map[string]any{"name": sessionFilter, "typed_config": filter},
		map[string]any{"name": "envoy.filters.http.router", "typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}},
	}}
	return config
}

// stickyRequests are a path and fields each. ADDR1 to ADDR3 and OLD stand for values that name the endpoints; there is no third.
var stickyRequests = []struct{ name, path, fields string }{
	{"nothing", "/", ""},
	{"named", "/", "Cookie: s=ADDR2\r\n"},
	{"quoted, among others", "/", "Cookie: a=b; s=\"ADDR1\"; c\r\n"},
	{"two, the first counts", "/", "Cookie: s=ADDR2; s=ADDR1\r\n"},
	{"two fields", "/", "Cookie: s=ADDR2\r\nCookie: s=ADDR1\r\n"},
	{"of older form", "/", "Cookie: s=OLD2\r\n"},
	{"expired", "/", "Cookie: s=PAST2\r\n"},
	{"with a time to come", "/", "Cookie: s=FUTURE2\r\n"},
	{"expired, where there is no time", "/strict", "Cookie: s=PAST2\r\n"},
	{"not base64", "/strict", "Cookie: s=!!!\r\n"},
	{"empty", "/strict", "Cookie: s=\r\n"},
	{"no such endpoint", "/", "Cookie: s=ADDR3\r\n"},
	{"no such endpoint, strict", "/strict", "Cookie: s=ADDR3\r\n"},
	{"no such endpoint, with a status", "/404", "Cookie: s=ADDR3\r\n"},
	{"named, strict", "/strict/deep?er", "Cookie: s=ADDR2\r\n"},
	{"text that is no address", "/strict", "Cookie: s=aGVsbG8=\r\n"},
	{"path of no cookie", "/strictly", "Cookie: s=ADDR2\r\n"},
	{"unhealthy", "/sick", "Cookie: s=ADDR2\r\n"},
	{"unhealthy, strict", "/404sick", "Cookie: s=ADDR2\r\n"},
	{"degraded", "/poor", "Cookie: s=ADDR2\r\n"},
	{"no states", "/ignored", "Cookie: s=ADDR3\r\n"},
	{"a state that is asked for", "/picky", "Cookie: s=ADDR2\r\n"},
	{"a state that is not asked for", "/picky", "Cookie: s=ADDR1\r\n"},
	{"attributes", "/rich", ""},
	{"off", "/off", "Cookie: s=ADDR2\r\n"},
	{"header, none", "/header", ""},
	{"header", "/header", "x-host: OLD2\r\n"},
	{"header that is not base64", "/header", "x-host: 127.98.0.2\r\n"},
	{"header of the endpoint", "/own", ""},
	{"nobody listens there", "/dead", "Cookie: s=ADDR7\r\n"},
	{"nobody listens there, strict", "/half", "Cookie: s=ADDR7\r\n"},
	{"the endpoint fails", "/retry", "Cookie: s=ADDR2\r\n"},
	{"rewritten", "/rewritten", ""},
	{"no endpoint", "/direct", ""},
	{"share", "/shares", "Cookie: share=ADDR1\r\n"},
	{"of a subset", "/prod", ""},
	{"of a subset, in it", "/prod", "Cookie: s=ADDR1\r\n"},
	{"of a subset, elsewhere in the cluster", "/prod", "Cookie: s=ADDR2\r\n"},
	{"of a subset, unhealthy", "/prod", "Cookie: s=ADDR7\r\n"},
	{"of a subset, nowhere", "/prod", "Cookie: s=ADDR3\r\n"},
	{"of a subset, strict, elsewhere in the cluster", "/canary", "Cookie: s=ADDR1\r\n"},
	{"of a subset, strict, nowhere", "/canary", "Cookie: s=ADDR3\r\n"},
	{"of no subset", "/dev", ""},
	{"of no subset, named", "/dev", "Cookie: s=ADDR2\r\n"},
}

// stickyText puts values in place of their names.
func stickyText(text string, port uint16) string {
	var pairs []string
	for _, n := range []string{"1", "2", "3", "7"} {
		address := fmt.Sprintf("127.98.0.%s:%d", n, port)
		message := "\x0a" + string(rune(len(address))) + address
		for name, value := range map[string]string{
			"ADDR": message, "OLD": address, "PAST": message + "\x10\x01", "FUTURE": message + "\x10\xff\xff\xff\xff\xff\x01",
		} {
			pairs = append(pairs, name+n, base64.StdEncoding.EncodeToString([]byte(value)))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// playSticky sends a request four times on one connection, and tells what can differ in the answers: status, body and what is to be kept.
func playSticky(t *testing.T, place *harness.Place, service netip.AddrPort, path, fields string) []string {
	t.Helper()
	var steps []programs.Step
	for range 4 {
		steps = append(steps, programs.Step{Send: "GET " + path + " HTTP/1.1\r\nHost: e2e.test\r\n" + fields + "\r\n"}, programs.Step{Receive: true})
	}
	var report programs.ExchangeReport
	place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
		Address: service.String(), Steps: steps, Timeout: patience, Fields: []string{"set-cookie", "x-host"},
	}).Next(t, &report)
	if len(report.Replies) != 4 {
		t.Fatalf("%s: %d replies: %s", path, len(report.Replies), report.Error)
	}
	var all []string
	for _, r := range report.Replies {
		text := fmt.Sprint(r.Status, " ", r.Body)
		for _, f := range r.Fields {
			text += " | " + plainField(f)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// plainField shows a session's cookie with its address, and whether its time is right in place of the time.
func plainField(field string) string {
	before, rest, quoted := strings.Cut(field, `="`)
	value, after, _ := strings.Cut(rest, `"`)
	message, err := base64.StdEncoding.DecodeString(value)
	if !quoted || err != nil || len(message) < 2 {
		return field
	}
	address := string(message[2 : 2+message[1]])
	end := int64(0)
	for i, b := range message[min(len(message), 3+len(address)):] {
		end |= int64(b&0x7f) << (7 * i)
	}
	when := "for ever"
	if end != 0 {
		when = "at another time"
		if left := end - time.Now().Unix(); 90 <= left && left <= 121 {
			when = "in time"
		}
	}
	return before + "=" + address + " " + when + after
}

// TestSessionsAreEnvoys plays requests with sessions of all kinds to XLB and to Envoy.
func TestSessionsAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	place, port := harness.SameHost(t), stickyOrigins(t)
	played := func(t *testing.T, start func(harness.Config)) map[string][]string {
		t.Helper()
		service := harness.Service()
		start(stickyConfig(service, port))
		got := map[string][]string{}
		for _, r := range stickyRequests {
			got[r.name] = playSticky(t, place, service, r.path, stickyText(r.fields, port))
		}
		return got
	}
	want := played(t, func(c harness.Config) { harness.StartEnvoy(t, c, place) })
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			var b *harness.Balancer
			got := played(t, func(c harness.Config) { b = harness.Start(t, mode, c, place) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-Envoy +XLB):\n%s", diff)
			}
			if fast, _ := b.Served(t); mode.Fast && fast < 4 {
				t.Errorf("%v requests on the fast path; those of the route that has no session belong there", fast)
			}
		})
	}
}

// TestCookiesOfEnvoyAndXLBAreTheSame takes the cookies of one to the other.
func TestCookiesOfEnvoyAndXLBAreTheSame(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it compares the two")
	place, port := harness.SameHost(t), stickyOrigins(t)
	envoy, xlb := harness.Service(), harness.Service()
	harness.StartEnvoy(t, stickyConfig(envoy, port), place)
	harness.Start(t, harness.Modes(t)[0], stickyConfig(xlb, port), place)
	for _, way := range []struct {
		name     string
		from, to netip.AddrPort
	}{{"Envoy's to XLB", envoy, xlb}, {"XLB's to Envoy", xlb, envoy}} {
		for i := range 4 {
			var report programs.ExchangeReport
			place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
				Address: way.from.String(), Steps: getAndReceive("/"), Timeout: patience, Fields: []string{"set-cookie"},
			}).Next(t, &report)
			if len(report.Replies) != 1 || len(report.Replies[0].Fields) != 1 {
				t.Fatalf("%s: no cookie: %+v", way.name, report)
			}
			cookie, _, _ := strings.Cut(strings.TrimPrefix(report.Replies[0].Fields[0], "set-cookie: "), ";")
			want := []string{"200 " + report.Replies[0].Body}
			if got := playSticky(t, place, way.to, "/", "Cookie: "+cookie+"\r\n"); !slices.Equal(got, want) {
				t.Errorf("%s, %d: with %s got %v, want %v", way.name, i, cookie, got, want)
			}
		}
	}
}
