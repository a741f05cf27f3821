// SPDX-License-Identifier: Apache-2.0

package hashing

import "math"

// Load is what hosts have to do at one moment.
type Load struct {
	// Of a host, by its index in the table's hosts: requests under way.
	Of func(host int) uint32
	// Total of the cluster.
	Total uint32
}

// PickBounded is Table.Pick with loads bounded: a host whose requests are more than factor percent of its share of all is passed over
// (ConsistentHashingLbConfig.hash_balance_factor, at least 100; 0 bounds nothing). What comes next is Envoy's order: the hosts shuffled by
// the hash, the same for every request with it. Where all are loaded, the least loaded one is taken.
func PickBounded(t Table, hash uint64, attempt, factor uint32, load Load) int {
	first := t.Pick(hash, attempt)
	if factor == 0 || first < 0 {
		return first
	}
	hosts := t.Hosts()
	// In 32 bits, as in Envoy.
	slots := ((load.Total+1)*factor + 99) / 100
	excess := func(host int) float64 {
		own := max(uint32(math.Ceil(float64(slots)*hosts[host].Share)), 1)
		return float64(load.Of(host)) / float64(own)
	}
	best, least := first, excess(first)
	if least <= 1 {
		return first
	}
	for host := range shuffled(len(hosts), hash) {
		if host == first {
			continue
		}
		e := excess(host)
		if e <= 1 {
			return host
		}
		if e < least {
			best, least = host, e
		}
	}
	return best
}

// shuffled yields the numbers below n, each once, in an order that the hash decides.
func shuffled(n int, hash uint64) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		r := newTwister(uint32(hash))
		for i := range order {
			j := i + int(r.below(uint32(n-i)))
			order[i], order[j] = order[j], order[i]
			if !yield(order[i]) {
				return
			}
		}
	}
}
