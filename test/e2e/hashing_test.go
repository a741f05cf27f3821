// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// byKey is a table that sends everything to a cluster, by the hash of a header.
func byKey(cluster string) map[string]any {
	return map[string]any{"name": "hashed", "virtual_hosts": []any{map[string]any{
		"name": "all", "domains": []any{"*"}, "routes": []any{map[string]any{
			"match": map[string]any{"prefix": "/"},
			"route": map[string]any{
				"cluster": cluster, "hash_policy": []any{map[string]any{"header": map[string]any{"header_name": "x-key"}}},
			},
		}},
	}}}
}

// hosts are the endpoints as their cluster's table has them.
func hosts(endpoints []netip.AddrPort) []hashing.Host {
	list := make([]hashing.Host, len(endpoints))
	for i, e := range endpoints {
		list[i] = hashing.Host{Key: e.String(), Share: 1 / float64(len(endpoints))}
	}
	return list
}

var hashPolicies = []struct {
	policy string
	table  func([]hashing.Host) hashing.Table
}{
	{"RING_HASH", func(h []hashing.Host) hashing.Table { return hashing.NewRing(h, hashing.DefaultRingSize, false) }},
	{"MAGLEV", func(h []hashing.Host) hashing.Table { return hashing.NewMaglev(h, hashing.DefaultMaglevSize) }},
}

// keyCase is a cluster of five hosts that hashes.
type keyCase struct {
	name   string
	fields map[string]any
	table  func([]hashing.Host) hashing.Table
	// moved is the greatest part, of the keys of servers that stay, that moves when another leaves.
	moved float64
}

var keyCases = []keyCase{
	{"RING_HASH", map[string]any{"lb_policy": "RING_HASH"}, hashPolicies[0].table, 0.2},
	// The ring has four places for each host, with five hosts and with four.
	{"a ring whose hosts keep their places", map[string]any{"lb_policy": "RING_HASH", "ring_hash_lb_config": map[string]any{"minimum_ring_size": 16}},
		func(h []hashing.Host) hashing.Table {
			return hashing.NewRing(h, hashing.RingSize{Min: 16, Max: hashing.DefaultRingSize.Max}, false)
		}, 0},
	{"MAGLEV", map[string]any{"lb_policy": "MAGLEV"}, hashPolicies[1].table, 0.02},
}

// Each key comes to the server that its table names, and Envoy takes, before and after a server has left. Only keys of that one move, and those
// that Envoy moves, too.
func TestKeysComeToTheServersOfEnvoy(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy runs beside it")
	const gone = 2
	place := harness.SameHost(t)
	names := harness.Identities(5)
	_, addresses := origins(t, place, names...)
	rest, restNames := slices.Delete(slices.Clone(addresses), gone, gone+1), slices.Delete(slices.Clone(names), gone, gone+1)
	var services []netip.AddrPort
	configWith := func(endpoints []netip.AddrPort) (config harness.Config) {
		for i, c := range keyCases {
			one := harness.OneCluster(services[i], endpoints...)
			one.Clusters[0].Fields = c.fields
			one.Listeners[0].Table = byKey(fmt.Sprintf("origins-%d", i))
			config.Add(one)
		}
		return config
	}
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		services = nil
		for range keyCases {
			services = append(services, harness.Service())
		}
		b := start(configWith(addresses))
		for i, c := range keyCases {
			requireKeys(t, place, services[i], c.table(hosts(addresses)), names, *hashKeys)
		}
		b.RequireFast(t, b.Mode, 0.99)
		b.Reload(t, configWith(rest))
		for i, c := range keyCases {
			harness.Eventually(t, patience, "the server has left", func() bool {
				return !slices.Contains(askKeys(t, place, services[i], 50), names[gone])
			})
			requireKeys(t, place, services[i], c.table(hosts(rest)), restNames, *hashKeys)
		}
	})
	for _, c := range keyCases {
		own, moved := 0, 0
		after := tableKeys(c.table(hosts(rest)), restNames, *hashKeys)
		for i, server := range tableKeys(c.table(hosts(addresses)), names, *hashKeys) {
			switch {
			case server == names[gone]:
				own++
			case server != after[i]:
				moved++
			}
		}
		t.Logf("%s: of %d keys %d were of the server that left, %d of the others moved", c.name, *hashKeys, own, moved)
		if most := c.moved * float64(*hashKeys-own); float64(moved) > most {
			t.Errorf("%s: %d keys of servers that stay moved, at most %.0f were expected", c.name, moved, most)
		}
	}
}

var hashKeys = flag.Int("hash.keys", 300, "keys that are hashed by each peer")

// askKeys sends so many keys over one connection, and tells who answers.
func askKeys(t *testing.T, place *harness.Place, service netip.AddrPort, n int) (names []string) {
	t.Helper()
	var steps []programs.Step
	for i := range n {
		steps = append(steps, programs.Step{Send: "GET / HTTP/1.1\r\nHost: a\r\nX-Key: " + keyOf(i) + "\r\n\r\n"}, programs.Step{Receive: true})
	}
	return whoAnswers(t, place, service, steps)
}

func whoAnswers(t *testing.T, place *harness.Place, service netip.AddrPort, steps []programs.Step) (names []string) {
	t.Helper()
	report := runExchange(t, place, service, 2*time.Minute, steps...)
	if report.Error != "" || len(report.Replies) != len(steps)/2 {
		t.Fatalf("%d of %d replies: %s", len(report.Replies), len(steps)/2, report.Error)
	}
	for _, r := range report.Replies {
		names = append(names, r.Identity)
	}
	return names
}

func keyOf(i int) string { return fmt.Sprintf("key-%d", i) }

// tableKeys are the servers of so many keys.
func tableKeys(table hashing.Table, names []string, n int) (want []string) {
	for i := range n {
		want = append(want, names[table.Pick(hashing.Sum(keyOf(i)), 0)])
	}
	return want
}

// requireKeys compares so many keys with a table.
func requireKeys(t *testing.T, place *harness.Place, service netip.AddrPort, table hashing.Table, names []string, keys int) {
	t.Helper()
	want, wrong := tableKeys(table, names, keys), 0
	for i, name := range askKeys(t, place, service, keys) {
		if name != want[i] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d keys come to another server", wrong, keys)
	}
}

func hashOf(field string, value any) any { return map[string]any{field: value} }

// Requests of these policies all have something to hash: none is sent by chance.
var kindsOfHash = []struct {
	name     string
	policies []any
}{
	{"header", []any{hashOf("header", fields{"header_name": "x-key"})}},
	{"query parameter", []any{hashOf("query_parameter", fields{"name": "p"})}},
	{"source address", []any{hashOf("connection_properties", fields{"source_ip": true})}},
	{"header and query parameter", []any{hashOf("header", fields{"header_name": "x-key"}), hashOf("query_parameter", fields{"name": "p"})}},
	{"header, and no further", []any{fields{"header": fields{"header_name": "x-key"}, "terminal": true}, hashOf("query_parameter", fields{"name": "p"})}},
	{"header that is missing, and then another", []any{fields{"header": fields{"header_name": "x-none"}, "terminal": true}, hashOf("header", fields{"header_name": "x-other"})}},
	{"cookie", []any{hashOf("cookie", fields{"name": "k"})}},
	{"path", []any{hashOf("header", fields{"header_name": ":path"})}},
	{"rewritten header", []any{hashOf("header", fields{"header_name": "x-key", "regex_rewrite": fields{"pattern": fields{"regex": "[0-3]"}, "substitution": "-"}})}},
}

// The first six stay in the kernel.
func TestKindsOfHashPoliciesAreEnvoys(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy runs beside it")
	const requests = 40
	place := harness.SameHost(t)
	_, addresses := origins(t, place, harness.Identities(5)...)
	var routes []any
	var steps []programs.Step
	for i, kind := range kindsOfHash {
		routes = append(routes, fields{"match": fields{"prefix": fmt.Sprintf("/%d/", i)}, "route": fields{"cluster": "origins", "hash_policy": kind.policies}})
		for n := range requests {
			steps = append(steps, programs.Step{Send: fmt.Sprintf("GET /%d/%d?q=%d&p=%d HTTP/1.1\r\nHost: a\r\nX-Key: a%d\r\nCookie: j=1; k=%d\r\nX-Other: b%d\r\n\r\n", i, n, n, n, n, n, n)}, programs.Step{Receive: true})
		}
	}
	var all [][]string
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		service := harness.Service()
		config := harness.OneCluster(service, addresses...)
		config.Clusters[0].Policy = "RING_HASH"
		config.Listeners[0].Table = fields{"name": "hashed", "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": routes}}}
		b := start(config)
		all = append(all, whoAnswers(t, place, service, steps))
		if !b.Mode.Fast {
			return
		}
		// A connection's first requests may come before there are i-socks enough.
		if fast, _ := b.Served(t); fast < 5.5*requests {
			t.Errorf("%v requests on the fast path, want %d", fast, 6*requests)
		}
	})
	want := all[len(all)-1]
	for i, got := range all[:len(all)-1] {
		for j, kind := range kindsOfHash {
			if diff := cmp.Diff(want[j*requests:(j+1)*requests], got[j*requests:(j+1)*requests]); diff != "" {
				t.Errorf("peer %d, %s (-Envoy +XLB):\n%s", i, kind.name, diff)
			}
		}
	}
}

// Where a server has its share of requests that are under way, the next in Envoy's order takes over.
func TestBoundedLoadsAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy runs beside it")
	const requests = 12
	place, h := harness.SameHost(t), newHolders(t, 4)
	var addresses []netip.AddrPort
	for _, s := range h.servers {
		s.holds.Store(true)
		addresses = append(addresses, s.address)
	}
	var all [][]string
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		var config harness.Config
		services := []netip.AddrPort{harness.Service(), harness.Service()}
		for i, policy := range []string{"RING_HASH", "MAGLEV"} {
			one := harness.OneCluster(services[i], addresses...)
			one.Clusters[0].Fields = fields{"lb_policy": policy, "common_lb_config": fields{"consistent_hashing_lb_config": fields{"hash_balance_factor": 120}}}
			one.Listeners[0].Table = byKey(fmt.Sprintf("origins-%d", i))
			config.Add(one)
		}
		start(config)
		// Before the balancer ends, which waits for requests under way.
		t.Cleanup(h.reset)
		h.reset()
		for i := range 2 * requests {
			// A few keys: each has an order of its own.
			request := fmt.Sprintf("GET /hold HTTP/1.1\r\nHost: a\r\nX-Key: key-%d\r\n\r\n", i%3)
			place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
				Address: services[i/requests].String(), Timeout: time.Minute, Steps: []programs.Step{{Send: request}, {Receive: true}},
			})
			harness.Eventually(t, await.Patience, "the request is there", func() bool { return len(h.order()) == i+1 })
		}
		all = append(all, h.order())
	})
	want := all[len(all)-1]
	for i, got := range all[:len(all)-1] {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("peer %d (-Envoy +XLB):\n%s", i, diff)
		}
	}
	for _, some := range [][]string{want[:requests], want[requests:]} {
		if slices.Sort(some); len(slices.Compact(some)) < 2 {
			t.Error("all requests came to one server: nothing was bounded")
		}
	}
}
