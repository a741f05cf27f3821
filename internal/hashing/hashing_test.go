// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// hostsOf makes hosts of weights.
func hostsOf(weights ...uint32) []Host {
	hosts := make([]Host, len(weights))
	for i, share := range Shares(weights) {
		hosts[i] = Host{Key: fmt.Sprintf("10.0.0.%d:80", i), Share: share}
	}
	return hosts
}

var makers = []struct {
	name string
	make func([]Host) Table
}{
	{"ring", func(h []Host) Table { return NewRing(h, DefaultRingSize, false) }},
	{"murmur ring", func(h []Host) Table { return NewRing(h, DefaultRingSize, true) }},
	{"maglev", func(h []Host) Table { return NewMaglev(h, DefaultMaglevSize) }},
}

func TestHashesAreThoseOfTheirDefinitions(t *testing.T) {
	// xxHash64 of nothing, of the specification's test vectors; of several texts each seeds the next.
	if got := Sum(""); got != 0xef46db3751d8e999 {
		t.Errorf("xxHash64 of nothing: %#x", got)
	}
	if got, want := Sum("a", "b"), seeded("b", Sum("a")); got != want {
		t.Errorf("two texts: %#x, want %#x", got, want)
	}
	if got := Combine(1<<63|2, 8); got != 5^8 {
		t.Errorf("combined: %d", got)
	}
}

func TestTwisterIsTheStandardOne(t *testing.T) {
	// ISO C++, [rand.predef]: the 10000th number of a default-constructed mt19937.
	r := newTwister(5489)
	for range 9999 {
		r.next()
	}
	if got := r.next(); got != 4123659995 {
		t.Errorf("10000th number: %d", got)
	}
}

func TestTableWithoutHostsPicksNone(t *testing.T) {
	for _, m := range makers {
		if got := PickBounded(m.make(nil), 7, 0, 150, Load{}); got != -1 {
			t.Errorf("%s: %d", m.name, got)
		}
	}
}

func TestSharesOfKeysAreThoseOfTheHosts(t *testing.T) {
	const picks = 100_000
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			hosts := hostsOf(1, 2, 3, 10)
			table, counts := m.make(hosts), make([]int, 4)
			for i := range picks {
				counts[table.Pick(Sum(fmt.Sprint(i)), 0)]++
			}
			for i, h := range hosts {
				// A host with 64 points of a ring has a share that is off by an eighth on average.
				if share := float64(counts[i]) / picks; math.Abs(share-h.Share) > 0.4*h.Share {
					t.Errorf("host %d: share %.3f of %.3f", i, share, h.Share)
				}
			}
		})
	}
}

func TestKeysOfOtherHostsStayWhenAHostGoes(t *testing.T) {
	const keys, gone = 10_000, 3
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			all := hostsOf(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
			rest := slices.Delete(slices.Clone(all), gone, gone+1)
			for i := range rest {
				rest[i].Share = 1. / 9
			}
			before, after, moved := m.make(all), m.make(rest), 0
			for i := range keys {
				hash := Sum(fmt.Sprint(i))
				was, is := all[before.Pick(hash, 0)].Key, rest[after.Pick(hash, 0)].Key
				if was != is && was != all[gone].Key {
					moved++
				}
			}
			t.Logf("%d of %d keys of other hosts have moved", moved, keys)
			// With a host less the others have more points each, so that a ring has as many as before.
			if moved > keys*15/100 {
				t.Errorf("%d of %d keys of other hosts have moved", moved, keys)
			}
		})
	}
}

func TestFurtherAttemptsFindOtherHosts(t *testing.T) {
	for _, m := range makers {
		table, seen := m.make(hostsOf(1, 1, 1)), map[int]bool{}
		for attempt := range uint32(32) {
			seen[table.Pick(42, attempt)] = true
		}
		if len(seen) != 3 {
			t.Errorf("%s: 32 attempts find %d of 3 hosts", m.name, len(seen))
		}
	}
}

func TestLoadIsBounded(t *testing.T) {
	table := NewRing(hostsOf(1, 1, 1, 1), DefaultRingSize, false)
	first := table.Pick(42, 0)
	pick := func(loads ...uint32) int {
		var total uint32
		for _, l := range loads {
			total += l
		}
		return PickBounded(table, 42, 0, 150, Load{Of: func(h int) uint32 { return loads[h] }, Total: total})
	}
	if got := pick(0, 0, 0, 0); got != first {
		t.Errorf("without load: %d, want %d", got, first)
	}
	loads := make([]uint32, 4)
	loads[first] = 100
	second := pick(loads...)
	if second == first || second != pick(loads...) {
		t.Errorf("the first of 100 requests has all: %d, then %d", second, pick(loads...))
	}
	// Of 4 hosts none may have more than 150 % of a quarter.
	counts := make([]uint32, 4)
	for range 400 {
		counts[pick(counts...)]++
	}
	if most := slices.Max(counts); most > 151 {
		t.Errorf("400 requests with one key: %v", counts)
	}
}

func TestRingWithAllHostsLoadedTakesTheLeast(t *testing.T) {
	table := NewMaglev(hostsOf(1, 1, 1), 11)
	for least := range 3 {
		// More than the cluster has: Envoy's counts of hosts and cluster are not read at one moment.
		load := Load{Total: 1, Of: func(h int) uint32 {
			if h == least {
				return 50
			}
			return 100
		}}
		if got := PickBounded(table, 5, 0, 100, load); got != least {
			t.Errorf("picked %d, least loaded is %d", got, least)
		}
	}
}

func TestShuffleYieldsEachOnce(t *testing.T) {
	for n := range 20 {
		all := slices.Sorted(shuffled(n, uint64(n)<<40|77))
		for i, got := range all {
			if i != got {
				t.Fatalf("%d: %v", n, all)
			}
		}
		if len(all) != n {
			t.Fatalf("%d: %v", n, all)
		}
	}
}
