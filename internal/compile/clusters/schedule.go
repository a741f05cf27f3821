// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"slices"
)

// maxLength is the length of a schedule whose weights do not reduce to a shorter one;
// entriesPerEndpoint keeps weights apart in a cluster of thousands.
const (
	maxLength          = 4096
	entriesPerEndpoint = 4
)

// entry is the nth entry, from 1, of an endpoint that has `of` entries in a schedule.
type entry struct {
	endpoint uint32
	n, of    uint64
}

// Schedule returns the order in which endpoints of these weights take turns, as
// indices into weights; repeated, it goes on for ever. The order is that of Envoy's
// earliest-deadline-first scheduler (source/common/upstream/edf_scheduler.h) for the
// same weights, without its rounding: entry n of an endpoint of weight w is due at n/w;
// of entries due together the lighter endpoint's was put into the queue earlier and is
// first, and equal endpoints stand in their order.
//
// Weights are divided by their greatest common divisor. If their sum is then still
// more than T = max(4096, 4 x endpoints), they are scaled to T entries by largest
// remainder: each share of the entries is less than 1/T from the endpoint's share of
// the weights. An endpoint whose share is below 1/T gets one entry all the same, and
// the others make room in proportion.
func Schedule(weights []uint32) []uint32 {
	wide := make([]uint64, len(weights))
	for i, w := range weights {
		wide[i] = uint64(w)
	}
	return scheduleOf(wide)
}

// scheduleOf is Schedule for weights up to 2^43.
func scheduleOf(weights []uint64) []uint32 {
	var order []entry
	for i, of := range entriesOf(weights) {
		for n := range of {
			order = append(order, entry{endpoint: uint32(i), n: n + 1, of: of})
		}
	}
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(a.n*b.of, b.n*a.of),
			cmp.Compare(a.of, b.of),
			cmp.Compare(a.endpoint, b.endpoint),
		)
	})
	schedule := make([]uint32, len(order))
	for i, t := range order {
		schedule[i] = t.endpoint
	}
	return schedule
}

// entriesOf reduces weights to numbers of entries, at least 1 each.
func entriesOf(weights []uint64) []uint64 {
	entries := make([]uint64, len(weights))
	var divisor, sum uint64
	for i, w := range weights {
		entries[i] = max(w, 1)
		divisor = gcd(divisor, entries[i])
		sum += entries[i]
	}
	if divisor == 0 {
		return nil
	}
	for i := range entries {
		entries[i] /= divisor
	}
	sum /= divisor
	if limit := uint64(max(maxLength, entriesPerEndpoint*len(entries))); sum > limit {
		return scaled(entries, sum, limit)
	}
	return entries
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// scaled shares `limit` entries among weights that sum to more.
func scaled(weights []uint64, sum, limit uint64) []uint64 {
	entries := make([]uint64, len(weights))
	// Those whose share is less than one entry get one. That leaves less for the
	// others, so more may fall below.
	for again := true; again; {
		again = false
		for i, w := range weights {
			if entries[i] == 0 && w*limit < sum {
				entries[i], again = 1, true
				sum -= w
				limit--
			}
		}
	}
	var rest []int
	left := limit
	for i, w := range weights {
		if entries[i] > 0 {
			continue
		}
		entries[i] = w * limit / sum
		left -= entries[i]
		rest = append(rest, i)
	}
	slices.SortStableFunc(rest, func(a, b int) int {
		return cmp.Compare(weights[b]*limit%sum, weights[a]*limit%sum)
	})
	for _, i := range rest[:left] {
		entries[i]++
	}
	return entries
}
