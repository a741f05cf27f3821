// SPDX-License-Identifier: Apache-2.0

package hashing

import "math"

// Host is one that keys are given to.
type Host struct {
	// Key is what is hashed of it: Envoy's "address:port", its hostname, or the hash_key of its metadata.
	Key string
	// Share of all keys, above 0; those of all hosts sum to 1.
	Share float64
}

// Table finds a host for each hash. It is never changed, and safe for concurrent use.
type Table interface {
	// Pick returns the index of the host for a hash, -1 where there is none. Attempts after the first, which is 0, look for
	// another one, as Envoy's retries do; they may come to the same.
	Pick(hash uint64, attempt uint32) int
	// Hosts are those that the table was made of, in that order.
	Hosts() []Host
	// Len is the number of entries.
	Len() int
}

// Shares turns weights into shares of their sum. The sum fits 32 bits.
func Shares(weights []uint32) []float64 {
	var sum uint64
	for _, w := range weights {
		sum += uint64(w)
	}
	shares := make([]float64, len(weights))
	for i, w := range weights {
		shares[i] = float64(w) / float64(sum)
	}
	return shares
}

// extremes are the least and the greatest share of hosts; Envoy begins to look for the least one at 1.
func extremes(hosts []Host) (least, greatest float64) {
	least = 1
	for _, h := range hosts {
		least, greatest = math.Min(least, h.Share), math.Max(greatest, h.Share)
	}
	return least, greatest
}
