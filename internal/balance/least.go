// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
)

// weightedUnit is what is due to an idle endpoint in leastWeighted, as in the kernel.
const weightedUnit = 1 << 20

// leastWeighted ends with one of a few random endpoints, each as likely as its share of the schedule, divided by its requests and the
// next, says: see pick_weighted.
func (p *Picker) leastWeighted(turns schedule, usable func(uint32) bool) (uint32, bool) {
	best, sum := uint32(0), uint64(0)
	for range int(maps.MaxPickTries) {
		e := turns.at(rand.Uint64())
		if !usable(e) {
			continue
		}
		due := weightedUnit/(uint64(p.outstanding(e))+1) + 1
		sum += due
		if rand.Uint64N(sum) < due {
			best = e
		}
	}
	if sum > 0 {
		return best, true
	}
	return random(turns, usable)
}

// leastOfAll is the least busy of all endpoints, and of several such any. An idle one that is drawn is as good: see pick_idle.
func (p *Picker) leastOfAll(turns schedule, usable func(uint32) bool) (best uint32, found bool) {
	for range int(maps.MaxPickTries) {
		if e := turns.at(rand.Uint64()); p.outstanding(e) == 0 && usable(e) {
			return e, true
		}
	}
	least, ties := uint32(0), uint64(0)
	for i := range turns {
		e := turns.at(uint64(i))
		if !usable(e) {
			continue
		}
		busy := p.outstanding(e)
		if !found || busy < least {
			least, ties, found = busy, 0, true
		}
		if busy > least {
			continue
		}
		ties++
		if rand.Uint64N(ties) == 0 {
			best = e
		}
	}
	return best, found
}

func (p *Picker) outstanding(endpoint uint32) uint32 {
	return atomic.LoadUint32(&p.shared.Endpoints[endpoint].Outstanding)
}
