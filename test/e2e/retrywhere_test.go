// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// refusers are servers that answer 503, and note who was asked, by path.
type refusers struct {
	addresses []netip.AddrPort
	mu        sync.Mutex
	asked     map[string][]string
}

func newRefusers(t *testing.T, n int) *refusers {
	t.Helper()
	r := &refusers{asked: map[string][]string{}}
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.addresses = append(r.addresses, netip.MustParseAddrPort(l.Addr().String()))
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asked[req.URL.Path] = append(r.asked[req.URL.Path], strconv.Itoa(i))
			w.WriteHeader(http.StatusServiceUnavailable)
		})}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }()
	}
	return r
}

// whereCase is a cluster, and a policy that says where retries go.
type whereCase struct {
	name string
	// hosts are those of each priority: h, d and u for healthy, degraded and unhealthy ones, c for canaries, o for others. Servers are numbered in order.
	hosts []string
	// frequency of previous_priorities; 0: there is none.
	frequency int
	// predicates of hosts, in short.
	predicates []string
	retries    int
	cluster    map[string]any
	criteria   map[string]any
	// byHost tells servers apart, and not only their priorities. Then each is as likely as another: turns begin anywhere.
	byHost bool
	// hashed requests have a hash.
	hashed bool
}

const retryExtensions = "type.googleapis.com/envoy.extensions.retry."

var predicates = map[string]map[string]any{
	"canaries": {"@type": retryExtensions + "host.omit_canary_hosts.v3.OmitCanaryHostsPredicate"},
	"others":   {"@type": retryExtensions + "host.omit_host_metadata.v3.OmitHostMetadataConfig", "metadata_match": asking(map[string]any{"kind": "o"})},
	"none":     {"@type": retryExtensions + "host.omit_host_metadata.v3.OmitHostMetadataConfig"},
	"previous": {"@type": retryExtensions + "host.previous_hosts.v3.PreviousHostsPredicate"},
}

var whereCases = []whereCase{
	{name: "each priority once", hosts: []string{"hh", "h", "h"}, frequency: 1, retries: 4},
	{name: "each priority twice", hosts: []string{"hh", "h", "h"}, frequency: 2, retries: 6},
	{name: "without", hosts: []string{"hh", "h"}, retries: 2},
	{name: "a priority that is down", hosts: []string{"h", "uu", "h"}, frequency: 1, retries: 3},
	{name: "a degraded priority", hosts: []string{"h", "d", "h"}, frequency: 1, retries: 3},
	{name: "degraded before unhealthy", hosts: []string{"h", "d", "u"}, frequency: 1, retries: 3},
	{name: "one priority", hosts: []string{"hh"}, frequency: 1, retries: 3},
	{name: "all is unhealthy", hosts: []string{"uu"}, frequency: 1, retries: 2},
	{name: "a ring", hosts: []string{"h", "h"}, frequency: 1, retries: 2, cluster: map[string]any{"lb_policy": "RING_HASH"}, hashed: true},
	{name: "least request", hosts: []string{"hh", "h"}, frequency: 1, retries: 1, cluster: map[string]any{"lb_policy": "LEAST_REQUEST"}},
	{name: "a subset", hosts: []string{"ho", "o", "hh", "o"}, frequency: 1, retries: 3, criteria: map[string]any{"kind": "o"}, cluster: map[string]any{
		"lb_subset_config": map[string]any{"fallback_policy": "ANY_ENDPOINT", "subset_selectors": []any{map[string]any{"keys": []any{"kind"}}}},
	}},
	{name: "no canaries", hosts: []string{"ch"}, predicates: []string{"canaries"}, retries: 2, byHost: true},
	{name: "no others", hosts: []string{"oho"}, predicates: []string{"others"}, retries: 2, byHost: true},
	{name: "neither", hosts: []string{"coh"}, predicates: []string{"others", "canaries"}, retries: 1, byHost: true},
	{name: "nothing is omitted", hosts: []string{"oh"}, predicates: []string{"none"}, retries: 1, byHost: true},
	{name: "not the same, and no canaries", hosts: []string{"chh"}, predicates: []string{"canaries", "previous"}, retries: 1, byHost: true},
	{name: "nobody else", hosts: []string{"cc"}, predicates: []string{"canaries"}, retries: 1},
}

func (c *whereCase) route(i int) map[string]any {
	policy := with(retryOn("5xx", c.retries), "retry_back_off", map[string]any{"base_interval": "0.001s"})
	if c.frequency > 0 {
		policy["retry_priority"] = map[string]any{"name": "x", "typed_config": map[string]any{
			"@type": retryExtensions + "priority.previous_priorities.v3.PreviousPrioritiesConfig", "update_frequency": c.frequency,
		}}
	}
	var list []any
	for _, p := range c.predicates {
		list = append(list, map[string]any{"name": p, "typed_config": predicates[p]})
	}
	if list != nil {
		policy["retry_host_predicate"], policy["host_selection_retry_max_attempts"] = list, 50
	}
	action := map[string]any{"cluster": fmt.Sprintf("c%d", i), "retry_policy": policy}
	if c.criteria != nil {
		action["metadata_match"] = asking(c.criteria)
	}
	if c.hashed {
		action["hash_policy"] = []any{map[string]any{"header": map[string]any{"header_name": "x-key"}}}
	}
	return map[string]any{"match": map[string]any{"prefix": fmt.Sprintf("/%d/", i)}, "route": action}
}

func (c *whereCase) assignment(addresses []netip.AddrPort) map[string]any {
	var list []any
	for priority, hosts := range c.hosts {
		var endpoints []any
		for _, kind := range hosts {
			health := map[rune]string{'u': "UNHEALTHY", 'd': "DEGRADED"}[kind]
			e := lbEndpoint(addresses[0], "HEALTHY")
			if health != "" {
				e["health_status"] = health
			}
			switch kind {
			case 'c':
				e["metadata"] = asking(map[string]any{"canary": true})
			case 'o':
				e["metadata"] = asking(map[string]any{"kind": "o", "canary": "true"}) // no canary: that is a string
			}
			endpoints, addresses = append(endpoints, e), addresses[1:]
		}
		list = append(list, locality("", priority, 1, endpoints...))
	}
	return map[string]any{"cluster_name": "x", "endpoints": list}
}

// priorityOf a server's number.
func (c *whereCase) priorityOf(server string) string {
	n, _ := strconv.Atoi(server)
	for i, hosts := range c.hosts {
		if n < len(hosts) {
			return strconv.Itoa(i)
		}
		n -= len(hosts)
	}
	return "?"
}

func whereConfig(service netip.AddrPort, addresses []netip.AddrPort) harness.Config {
	config := harness.Config{}
	var routes []any
	for i := range whereCases {
		c := &whereCases[i]
		fields := map[string]any{"load_assignment": c.assignment(addresses)}
		if c.byHost {
			fields["lb_policy"] = "RANDOM"
		}
		maps.Copy(fields, c.cluster)
		config.Clusters = append(config.Clusters, harness.Cluster{Name: fmt.Sprintf("c%d", i), Fields: fields})
		routes = append(routes, c.route(i))
	}
	config.Listeners = []harness.Listener{{Address: service, Table: map[string]any{
		"name": "where", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": routes}},
	}}}
	return config
}

// requests are enough of them for every way that is possible.
func (c *whereCase) requests() int {
	if c.byHost {
		return 120
	}
	return 20
}

// playWhere returns, by case, the ways that its requests went, each once.
func playWhere(t *testing.T, place *harness.Place, service netip.AddrPort, servers *refusers) map[string][]string {
	t.Helper()
	var steps []programs.Step
	for i := range whereCases {
		for n := range whereCases[i].requests() {
			steps = append(steps, programs.Step{Send: fmt.Sprintf("GET /%d/%d HTTP/1.1\r\nHost: e2e.test\r\nx-key: k\r\n\r\n", i, n)}, programs.Step{Receive: true})
		}
	}
	report := runExchange(t, place, service, 60*time.Second, steps...)
	if 2*len(report.Replies) != len(steps) {
		t.Fatalf("%d replies: %s", len(report.Replies), report.Error)
	}
	servers.mu.Lock()
	defer servers.mu.Unlock()
	ways := map[string][]string{}
	for i := range whereCases {
		c := &whereCases[i]
		for n := range c.requests() {
			way := servers.asked[fmt.Sprintf("/%d/%d", i, n)]
			for j, server := range way {
				if !c.byHost {
					way[j] = c.priorityOf(server)
				}
			}
			ways[c.name] = append(ways[c.name], strings.Join(way, " "))
		}
		slices.Sort(ways[c.name])
		ways[c.name] = slices.Compact(ways[c.name])
	}
	return ways
}

// TestRetriesGoWhereThoseOfEnvoyGo compares the servers that requests come to, one after the other.
func TestRetriesGoWhereThoseOfEnvoyGo(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	place, service := harness.SameHost(t), harness.Service()
	harness.OnlyXLB(t, "it is what XLB is compared with")
	servers := newRefusers(t, 6)
	harness.StartEnvoy(t, whereConfig(service, servers.addresses), place)
	want := playWhere(t, place, service, servers)
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			servers, service := newRefusers(t, 6), harness.Service()
			harness.Start(t, mode, whereConfig(service, servers.addresses), place)
			if diff := cmp.Diff(want, playWhere(t, place, service, servers)); diff != "" {
				t.Errorf("ways of requests (-Envoy +XLB):\n%s", diff)
			}
		})
	}
}
