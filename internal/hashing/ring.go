// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// RingSize bounds the points of a ring (RingHashLbConfig.minimum_ring_size and maximum_ring_size, each up to 8,388,608).
type RingSize struct {
	// Min is what the ring has at least, unless Max is less: as many more as make the points of the lightest host a whole number.
	Min, Max uint64
}

// DefaultRingSize is Envoy's.
var DefaultRingSize = RingSize{Min: 1 << 10, Max: 8 << 20}

// Ring is a ketama ring: a hash belongs to the host of the next point.
type Ring struct {
	hosts  []Host
	points []Point
}

// Point is a place on a ring.
type Point struct {
	Hash uint64
	// Host is an index into the ring's hosts.
	Host uint32
}

// NewRing places each host on a ring in proportion to its share, by hashes of its key and a number. With murmur the hash is
// MURMUR_HASH_2, otherwise XX_HASH.
//
// Numbers of points that are not whole are rounded as in Envoy: each host has points until as many have been placed as it and those
// before it have a right to. Of points with one hash the first host's counts.
func NewRing(hosts []Host, size RingSize, murmur bool) *Ring {
	r := &Ring{hosts: hosts}
	if len(hosts) == 0 {
		return r
	}
	hash := xxhash.Sum64
	if murmur {
		hash = murmur2
	}
	least, _ := extremes(hosts)
	scale := math.Min(math.Ceil(least*float64(size.Min))/least, float64(size.Max))
	r.points = make([]Point, 0, int(math.Ceil(scale)))
	var placed, due float64
	var key []byte
	for i, h := range hosts {
		// The conversion keeps the compiler from rounding once where Envoy rounds twice.
		due += float64(scale * h.Share)
		for n := uint64(0); placed < due; n++ {
			key = strconv.AppendUint(append(append(key[:0], h.Key...), '_'), n, 10)
			r.points = append(r.points, Point{hash(key), uint32(i)})
			placed++
		}
	}
	slices.SortStableFunc(r.points, func(a, b Point) int { return cmp.Compare(a.Hash, b.Hash) })
	return r
}

// Pick implements Table. Each attempt goes on by one point.
func (r *Ring) Pick(hash uint64, attempt uint32) int {
	if len(r.points) == 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(r.points, hash, func(p Point, hash uint64) int { return cmp.Compare(p.Hash, hash) })
	return int(r.points[(i%len(r.points)+int(attempt))%len(r.points)].Host)
}

// Hosts implements Table.
func (r *Ring) Hosts() []Host { return r.hosts }

// Len implements Table.
func (r *Ring) Len() int { return len(r.points) }

// Points are sorted by hash. They must not be changed.
func (r *Ring) Points() []Point { return r.points }
