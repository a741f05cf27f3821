// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "of random policies and requests, fixed: a test that fails fails again; 0 draws one")
	tries     = flag.Int("tries", 40, "routes with random policies")
	perPolicy = flag.Int("requests", 25, "requests to each of those routes")
)

// world draws policies and requests.
type world struct{ *rand.Rand }

func newWorld(t testing.TB) world {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	return world{rand.New(rand.NewPCG(seed, 0))}
}

func (w world) oneIn(n int) bool { return w.IntN(n) == 0 }

func of[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

// policy is of every kind.
func (w world) policy() object {
	p := object{}
	switch w.IntN(6) {
	case 0, 1:
		header := object{"header_name": of(w, "x-a", "X-B", "accept", ":path", ":method", ":authority", "host", "x-missing")}
		if w.oneIn(3) {
			header["regex_rewrite"] = object{"pattern": object{"regex": of(w, "[ab]+", "(.)b", "^a|c$")}, "substitution": of(w, "", "x", `<\0>`)}
		}
		p["header"] = header
	case 2, 3:
		cookie := object{"name": of(w, "j", "k")}
		if w.oneIn(2) {
			cookie["ttl"] = of(w, "0s", "0.5s", "77s", "3600.9s")
			if w.oneIn(2) {
				cookie["path"] = of(w, "/", "/a b")
			}
			if w.oneIn(2) {
				cookie["attributes"] = []any{object{"name": "SameSite", "value": "Strict"}, object{"name": "Secure"}}
			}
		}
		p["cookie"] = cookie
	case 4:
		p["query_parameter"] = object{"name": of(w, "p", "q")}
	default:
		p["connection_properties"] = object{"source_ip": w.oneIn(2)}
	}
	if w.oneIn(4) {
		p["terminal"] = true
	}
	return p
}

func (w world) policies() []any {
	list := make([]any, 1+w.IntN(4))
	for i := range list {
		list[i] = w.policy()
	}
	return list
}

// request asks for a route with some of what policies hash.
func (w world) request(prefix string) string {
	path, lines := prefix+of(w, "", "a", "b%20"), []string(nil)
	if w.oneIn(2) {
		path += "?" + of(w, "p=1", "q=a&p=b", "p", "p=&p=2", "q=%61&x", "&&q==", "p=a?b")
	}
	for w.oneIn(2) {
		lines = append(lines, of(w, "x-a", "X-A", "x-b", "accept")+": "+of(w, "", "a", "b", "ab", "cab", "c"))
	}
	for w.oneIn(2) {
		lines = append(lines, "cookie: "+of(w, "k=1", `k="1"`, "j=2; k=3", "k=", "k; j=1", "j=4;k=5;k=6", " k=7", "k=8 ; j= 9"))
	}
	for w.oneIn(3) {
		lines = append(lines, "x-forwarded-for: "+of(w, "9.9.9.9", "8.8.8.8, 1::2:0:3", "x", "::ffff:7.7.7.7"))
	}
	return get(path, lines...)
}

// newValue stands for what proxies make up themselves, by addresses that are their own.
var newValue = regexp.MustCompile(`="[0-9a-f]{16}"`)

func cookiesOf(answer *http.Response) []string {
	var list []string
	for _, c := range answer.Header["Set-Cookie"] {
		list = append(list, newValue.ReplaceAllString(c, `="?"`))
	}
	slices.Sort(list)
	return list
}

// startBoth serves the routes by Envoy and by XLB.
func startBoth(t *testing.T, routes, clusters []any) (cfg *model.Config, envoy, xlb *peer) {
	t.Helper()
	listener := freeAddress(t)
	bootstrap := bootstrapOf([]any{listenerAt(listener, routes...)}, clusters)
	cfg = parse(t, bootstrap)
	return cfg, startEnvoy(t, bootstrap, listener), startXLB(t, cfg)
}

func TestRequestsComeToTheEndpointsOfEnvoy(t *testing.T) {
	w := newWorld(t)
	endpoints := startEndpoints(t, 24)
	var routes, clusters []any
	for i := range *tries {
		name := number("c", i)
		var hosts []host
		for _, e := range endpoints[w.IntN(16):] {
			hosts = append(hosts, host{e, 1 + w.IntN(3)})
		}
		clusters = append(clusters, cluster(name, hosts, of(w, ringHash(object{}), maglevOf(object{"table_size": 4999}))))
		routes = append(routes, w.change(routeTo(name, w.policies()...)))
	}
	cfg, envoy, xlb := startBoth(t, routes, clusters)
	found := map[string]int{}
	for i := range *tries {
		for range *perPolicy {
			found[compare(t, envoy, xlb, cfg.Listeners[0].Routes.VirtualHosts[0].Routes[i], w.request("/"+number("c", i)+"/"))]++
		}
	}
	t.Logf("%v", found)
	for _, kind := range []string{byHash, byNewCookie, byChance} {
		if found[kind] == 0 {
			t.Errorf("no request was sent %s", kind)
		}
	}
}

// change has some routes change what is hashed: as in Envoy what the endpoint gets counts.
func (w world) change(route object) object {
	action := route["route"].(object)
	switch w.IntN(8) {
	case 0:
		route["request_headers_to_add"] = []any{object{"header": object{"key": "x-a", "value": "added"}}}
	case 1:
		route["request_headers_to_remove"] = []any{"x-a", "cookie"}
	case 2:
		action["prefix_rewrite"] = "/?p=z&"
	case 3:
		action["host_rewrite_literal"] = "other"
	}
	return route
}

// How an endpoint was chosen.
const (
	byHash      = "by hash"
	byNewCookie = "by a new cookie"
	byChance    = "by chance"
)

// compare sends a request to both. Where they made cookies, both get one of them with the next request.
func compare(t *testing.T, envoy, xlb *peer, route *model.Route, request string) string {
	t.Helper()
	want, wantEndpoint := envoy.ask(0, request)
	got, gotEndpoint := xlb.ask(0, request)
	if got.StatusCode != http.StatusOK || want.StatusCode != http.StatusOK {
		t.Fatalf("%q: Envoy answers %d, XLB %d", request, want.StatusCode, got.StatusCode)
	}
	if diff := cmp.Diff(cookiesOf(want), cookiesOf(got)); diff != "" {
		t.Fatalf("%q: cookies (-Envoy +XLB):\n%s", request, diff)
	}
	if cookies := got.Header["Set-Cookie"]; len(cookies) > 0 {
		pair, _, _ := strings.Cut(cookies[0], ";")
		if strings.Contains(request, pair) {
			return byNewCookie // the route removes what the client sends
		}
		compare(t, envoy, xlb, route, strings.Replace(request, "\r\n", "\r\ncookie: "+pair+"\r\n", 1))
		return byNewCookie
	}
	switch {
	case gotEndpoint == wantEndpoint:
		return byHash
	case isByChance(envoy, request, wantEndpoint):
		return byChance
	}
	t.Fatalf("%q: Envoy takes %s, XLB %s; policies %s", request, wantEndpoint, gotEndpoint, fmt.Sprintf("%+v", route.Hash))
	return ""
}

// The hash that chooses a cluster is of the request as the client sent it, and a cookie that is still to be made has none.
func TestWeightedClustersAreChosenByTheHashOfEnvoy(t *testing.T) {
	w := newWorld(t)
	endpoints := startEndpoints(t, 3)
	var clusters []any
	for i, e := range endpoints {
		clusters = append(clusters, cluster(number("c", i), []host{{e, 1}}, nil))
	}
	var routes []any
	for i := range *tries {
		var shares []any
		for j := range endpoints {
			shares = append(shares, object{"name": number("c", j), "weight": w.IntN(5) + 1})
		}
		route := routeTo(number("r", i), w.policies()...)
		action := route["route"].(object)
		delete(action, "cluster")
		action["weighted_clusters"] = object{"clusters": shares, "use_hash_policy": true}
		routes = append(routes, w.change(route))
	}
	cfg, envoy, xlb := startBoth(t, routes, clusters)
	found := map[string]int{}
	for i := range *tries {
		for range *perPolicy {
			request := w.request("/" + number("r", i) + "/")
			_, want := envoy.ask(0, request)
			_, got := xlb.ask(0, request)
			if got == want {
				found[byHash]++
				continue
			}
			if !isByChance(envoy, request, want) {
				t.Fatalf("%q: Envoy takes %s, XLB %s; policies %+v", request, want, got, cfg.Listeners[0].Routes.VirtualHosts[0].Routes[i].Hash)
			}
			found[byChance]++
		}
	}
	t.Logf("%v", found)
	if found[byHash] < found[byChance] {
		t.Errorf("most requests were sent by chance: %v", found)
	}
}

// isByChance asks Envoy again and again for another endpoint.
func isByChance(envoy *peer, request, endpoint string) bool {
	for range 60 {
		if _, again := envoy.ask(0, request); again != endpoint {
			return true
		}
	}
	return false
}
