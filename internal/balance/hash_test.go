// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/maps"
)

// tableOf makes a ring of endpoints.
func tableOf(factor uint32, endpoints ...uint32) *maps.HashTable {
	hosts := make([]hashing.Host, len(endpoints))
	for i, e := range endpoints {
		hosts[i] = hashing.Host{Key: fmt.Sprint(e), Share: 1 / float64(len(endpoints))}
	}
	return &maps.HashTable{Table: hashing.NewRing(hosts, hashing.DefaultRingSize, false), Endpoints: endpoints, BalanceFactor: factor}
}

// hashed returns a picker whose cluster 0 hashes over endpoints, and takes turns on endpoint 0 without that table.
func hashed(factor uint32, endpoints ...uint32) (*Picker, *maps.Shared) {
	p, shared := picker(maps.PolicyRingHash, 0)
	shared.HashTables[1].Store(tableOf(factor, endpoints...))
	return p, shared
}

func TestHashDecides(t *testing.T) {
	p, shared := hashed(0, 7, 3, 5)
	table := shared.HashTables[1].Load()
	for key := range 100 {
		hash := hashing.Sum(fmt.Sprint(key))
		got, ok := p.Pick(0, hash, nil)
		if want := table.Endpoints[table.Pick(hash, 0)]; !ok || got != want {
			t.Fatalf("key %d: endpoint %d (%v), want %d", key, got, ok, want)
		}
		p.Done(got)
	}
}

func TestKeysOfAnEndpointThatCannotBeUsedGoToOthersForAsLong(t *testing.T) {
	p, shared := hashed(0, 1, 2, 3, 4)
	picks := func(skip func(uint32) bool) (all [400]uint32) {
		for key := range all {
			e, ok := p.Pick(0, hashing.Sum(fmt.Sprint(key)), skip)
			if !ok {
				t.Fatalf("key %d: no endpoint", key)
			}
			all[key] = e
			p.Done(e)
		}
		return all
	}
	before := picks(nil)
	shared.Endpoints[2].Flags = uint32(maps.EndpointDown)
	spread := map[uint32]int{}
	for key, e := range picks(func(e uint32) bool { return e == 4 }) {
		switch was := before[key]; {
		case e == 2 || e == 4:
			t.Fatalf("key %d: endpoint %d", key, e)
		case was == 2 || was == 4:
			spread[e]++
		case was != e:
			t.Fatalf("key %d has moved from %d to %d", key, was, e)
		}
	}
	if spread[1] == 0 || spread[3] == 0 {
		t.Errorf("all keys went to one endpoint: %v", spread)
	}
	shared.Endpoints[2].Flags = 0
	if picks(nil) != before {
		t.Error("the keys do not come back with the endpoint")
	}
}

func TestNoEndpointIsHashedToWhereNoneCanBeUsed(t *testing.T) {
	p, shared := hashed(0, 1, 2)
	if e, ok := p.Pick(0, 5, func(uint32) bool { return true }); ok {
		t.Errorf("all skipped: picked %d", e)
	}
	shared.HashTables[1].Store(tableOf(0))
	if e, ok := p.Pick(0, 5, nil); ok {
		t.Errorf("no endpoints: picked %d", e)
	}
	for i := range shared.Endpoints {
		if n := shared.Endpoints[i].Outstanding; n != 0 {
			t.Errorf("endpoint %d: %d requests counted, none picked", i, n)
		}
	}
}

func TestLoadOfAnEndpointIsBoundedByTheSharedCounts(t *testing.T) {
	p, shared := hashed(150, 1, 2, 3, 4)
	for range 400 {
		if _, ok := p.Pick(0, 42, nil); !ok {
			t.Fatal("no endpoint")
		}
	}
	for e := range uint32(4) {
		// 150 % of a quarter, and the request that comes on top.
		if n := shared.Endpoints[e+1].Outstanding; n > 151 {
			t.Errorf("endpoint %d has %d of 400 requests", e+1, n)
		}
	}
}

// As the reconciler does it: a place that is given up has no table, and is another group's before the root leads to it.
func TestConcurrentPicksFollowChangesOfTheTable(t *testing.T) {
	const picksMeanwhile, pickers = 20_000, 4
	p, shared := hashed(0, 1, 2)
	shared.Groups[2].Policy, shared.Groups[2].Schedule = shared.Groups[1].Policy, shared.Groups[1].Schedule
	var stop atomic.Bool
	var picked, foreign atomic.Uint64
	var picking sync.WaitGroup
	for range pickers {
		picking.Go(func() {
			for key := uint64(0); !stop.Load(); key++ {
				e, ok := p.Pick(0, key<<40, nil)
				if !ok || e == 0 || e > 4 {
					foreign.Add(1)
				}
				if ok {
					p.Done(e)
				}
				picked.Add(1)
			}
		})
	}
	tables := []*maps.HashTable{tableOf(0, 1), tableOf(0, 3, 4), tableOf(0, 1, 2)}
	for version := uint64(1); picked.Load() < picksMeanwhile; version++ {
		now, before := 1+version%2, 2-version%2
		shared.HashTables[now].Store(tables[version%3])
		atomic.StoreUint64(&shared.Clusters[0].Root, version<<32|now)
		shared.HashTables[before].Store(nil)
	}
	stop.Store(true)
	picking.Wait()
	if n := foreign.Load(); n > 0 {
		t.Errorf("%d of %d picks found no endpoint, or one of another cluster", n, picked.Load())
	}
	for i := range shared.Endpoints {
		if n := shared.Endpoints[i].Outstanding; n != 0 {
			t.Errorf("endpoint %d: outstanding %d after all are done", i, n)
		}
	}
}
