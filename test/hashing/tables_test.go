// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"flag"
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/hashing"
)

var keys = flag.Int("keys", 300, "requests to each cluster")

// tableCase is a cluster and the table that XLB makes of it.
type tableCase struct {
	name    string
	weights []int
	with    object
	table   func([]hashing.Host) hashing.Table
}

func ring(size hashing.RingSize, murmur bool) func([]hashing.Host) hashing.Table {
	return func(hosts []hashing.Host) hashing.Table { return hashing.NewRing(hosts, size, murmur) }
}

func maglev(size uint64) func([]hashing.Host) hashing.Table {
	return func(hosts []hashing.Host) hashing.Table { return hashing.NewMaglev(hosts, size) }
}

func ringHash(config object) object {
	return object{"lb_policy": "RING_HASH", "ring_hash_lb_config": config}
}

func maglevOf(config object) object {
	return object{"lb_policy": "MAGLEV", "maglev_lb_config": config}
}

// ofType is the policy of that type in load_balancing_policy.
func ofType(name string, config object) object {
	content := object{"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies." + name}
	for k, v := range config {
		content[k] = v
	}
	return object{"load_balancing_policy": object{"policies": []any{object{"typed_extension_config": object{"name": "p", "typed_config": content}}}}}
}

var tableCases = []tableCase{
	{"a ring", []int{1, 1, 1, 1, 1}, ringHash(object{}), ring(hashing.DefaultRingSize, false)},
	{"a ring of weights", []int{1, 2, 3, 7}, ringHash(object{}), ring(hashing.DefaultRingSize, false)},
	{"a small ring of weights", []int{3, 5, 1, 1, 10}, ringHash(object{"minimum_ring_size": 20}), ring(hashing.RingSize{Min: 20, Max: 8 << 20}, false)},
	{"a bounded ring", []int{1, 1, 1, 1}, ringHash(object{"minimum_ring_size": 1, "maximum_ring_size": 6}), ring(hashing.RingSize{Min: 1, Max: 6}, false)},
	{"a bounded ring of weights", []int{100, 1, 17, 3}, ringHash(object{"minimum_ring_size": 50, "maximum_ring_size": 70}),
		ring(hashing.RingSize{Min: 50, Max: 70}, false)},
	{"murmur", []int{1, 2, 1}, ringHash(object{"hash_function": "MURMUR_HASH_2"}), ring(hashing.DefaultRingSize, true)},
	{"a ring by type", []int{100, 1, 17, 3}, ofType("ring_hash.v3.RingHash", object{"minimum_ring_size": 50, "maximum_ring_size": 70, "hash_function": "MURMUR_HASH_2"}),
		ring(hashing.RingSize{Min: 50, Max: 70}, true)},
	{"maglev by type", []int{3, 1, 2}, ofType("maglev.v3.Maglev", object{"table_size": 503}), maglev(503)},
	{"one host", []int{4}, ringHash(object{}), ring(hashing.DefaultRingSize, false)},
	{"maglev", []int{1, 1, 1, 1, 1}, maglevOf(object{}), maglev(hashing.DefaultMaglevSize)},
	{"maglev of weights", []int{1, 2, 3, 7, 1000}, maglevOf(object{}), maglev(hashing.DefaultMaglevSize)},
	{"a small maglev", []int{3, 1, 2}, maglevOf(object{"table_size": 11}), maglev(11)},
	{"the smallest maglev", []int{1, 1, 1}, maglevOf(object{"table_size": 2}), maglev(2)},
	{"a larger maglev", []int{1, 9, 9}, maglevOf(object{"table_size": 100003}), maglev(100003)},
}

func TestTablesPickAsEnvoy(t *testing.T) {
	endpoints := startEndpoints(t, 8)
	listener := freeAddress(t)
	var routes, clusters []any
	tables := make([]hashing.Table, len(tableCases))
	for i, c := range tableCases {
		name := number("c", i)
		var hosts []host
		var weights []uint32
		for j, w := range c.weights {
			hosts = append(hosts, host{endpoints[j], w})
			weights = append(weights, uint32(w))
		}
		clusters = append(clusters, cluster(name, hosts, c.with))
		routes = append(routes, routeTo(name, byHeader("x-key")))
		of := make([]hashing.Host, len(hosts))
		for j, share := range hashing.Shares(weights) {
			of[j] = hashing.Host{Key: hosts[j].address.String(), Share: share}
		}
		tables[i] = c.table(of)
	}
	envoy := startEnvoy(t, bootstrapOf([]any{listenerAt(listener, routes...)}, clusters), listener)
	for i, c := range tableCases {
		t.Run(c.name, func(t *testing.T) {
			for n := range *keys {
				key := fmt.Sprintf("key-%d-%d", i, n)
				_, got := envoy.ask(0, get("/"+number("c", i)+"/", "x-key: "+key))
				want := tables[i].Hosts()[tables[i].Pick(hashing.Sum(key), 0)].Key
				if got != want {
					t.Fatalf("%s: Envoy takes %s, XLB %s", key, got, want)
				}
			}
		})
	}
}
