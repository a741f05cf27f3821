// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/maps"
)

// maxAttempts bounds how often a table is asked for an endpoint that can be used, before all are looked at.
const maxAttempts = 64

// hashed passes over endpoints that cannot be used as Envoy's retries do, and then takes the next one of the configuration. A group whose
// place has another meaning by now has no table, perhaps.
func (p *Picker) hashed(t *maps.HashTable, asked *question) (endpoint uint32, ok bool) {
	if t == nil || len(t.Endpoints) == 0 {
		return 0, false
	}
	load := p.loadOf(t)
	pick := func(attempt uint32) int { return hashing.PickBounded(t, asked.hash, attempt, t.BalanceFactor, load) }
	for attempt := range uint32(maxAttempts) {
		if e := t.Endpoints[pick(attempt)]; asked.usable(e) {
			return e, true
		}
	}
	n := len(t.Endpoints)
	for i, first := 0, pick(0); i < n; i++ {
		if e := t.Endpoints[(first+i)%n]; asked.usable(e) {
			return e, true
		}
	}
	return 0, false
}

// loadOf is that of a table's endpoints, where it is bounded.
func (p *Picker) loadOf(t *maps.HashTable) hashing.Load {
	load := hashing.Load{Of: func(host int) uint32 { return atomic.LoadUint32(&p.shared.Endpoints[t.Endpoints[host]].Outstanding) }}
	if t.BalanceFactor == 0 {
		return load
	}
	for host := range t.Endpoints {
		load.Total += load.Of(host)
	}
	return load
}
