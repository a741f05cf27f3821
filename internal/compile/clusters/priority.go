// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// priority holds the hosts of one priority, in the order of the configuration.
type priority struct {
	all, healthy, degraded []Member
	// excluded hosts are unhealthy, but nobody expects them to be healthy yet.
	excluded []Member
	// zoning shares the requests among localities; nil does not.
	zoning *zoning
}

// priorities lists the hosts by priority and health. A priority that the configuration leaves out has none.
func (c *Cluster) priorities(states States) []priority {
	return prioritiesOf(c.Members, states)
}

func prioritiesOf(members []Member, states States) []priority {
	list := make([]priority, 1)
	for _, h := range members {
		for uint32(len(list)) <= h.Priority {
			list = append(list, priority{})
		}
		var s EndpointState
		if states != nil {
			s = states(h.Endpoint)
		}
		list[h.Priority].add(h, s)
	}
	return list
}

const unhealthyFlags = maps.EndpointUnhealthy | maps.EndpointEjected | maps.EndpointExcluded

// add sorts a host by the worst that is said of it. Envoy counts a draining one as excluded: nobody expects it to be back.
func (p *priority) add(h Member, s EndpointState) {
	if s.Flags&maps.EndpointExcluded != 0 || h.Health == model.Draining {
		p.excluded = append(p.excluded, h)
	}
	switch {
	case s.Flags&unhealthyFlags != 0 || h.Health == model.Unhealthy || h.Health == model.Draining || h.Health == model.HealthTimeout:
	case s.Flags&maps.EndpointDegraded != 0 || h.Health == model.Degraded:
		p.degraded = append(p.degraded, h)
	default:
		h.Factor = s.Factor
		p.healthy = append(p.healthy, h)
	}
	p.all = append(p.all, h)
}

// loads are shares of the requests by priority, in percent; all together are 100, unless there is no host.
type loads struct {
	healthy, degraded []uint64
	// panic: both shares go to all hosts of the priority.
	panic []bool
}

// loadsOf shares the requests among priorities as Envoy does (https://www.envoyproxy.io/docs/envoy/latest/intro/
// arch_overview/upstream/load_balancing/priority): a priority takes what its healthy hosts, times the overprovisioning factor, can;
// what is left goes on to the next one, then to the degraded hosts in the same order. With less than 100 in all, every share grows in
// proportion. All numbers are whole percents, rounded down; the first to take anything gets what rounding left.
func loadsOf(priorities []priority, b *model.Balancing) loads {
	n := len(priorities)
	l := loads{healthy: make([]uint64, n), degraded: make([]uint64, n), panic: make([]bool, n)}
	healthy, degraded, total := availabilities(priorities, b, nil)
	if l.decidePanic(priorities, b, total) {
		l.shareInPanic(priorities)
		return l
	}
	if total == 0 {
		// Without panic nobody is left to ask: the requests of the first priority fail.
		l.healthy[0] = 100
		return l
	}
	left := distribute(l.healthy, healthy, 100, total)
	left = distribute(l.degraded, degraded, left, total)
	if !giveFirst(l.healthy, healthy, left) {
		giveFirst(l.degraded, degraded, left)
	}
	return l
}

// availability is the share, in percent and at most 100, of a priority's requests that some of its hosts can take.
func (p *priority) availability(some []Member, b *model.Balancing) uint64 {
	count := func(hosts []Member) uint64 {
		if !b.WeightedHealth {
			return uint64(len(hosts))
		}
		var sum uint64
		for _, h := range hosts {
			sum += uint64(h.HealthWeight)
		}
		return sum
	}
	expected := count(p.all) - count(p.excluded)
	if expected == 0 {
		return 0
	}
	factor := uint64(cmp.Or(b.Overprovisioning, model.DefaultOverprovisioning))
	return min(100, factor*count(some)/expected)
}

// decidePanic finds the priorities that are in panic, and reports whether all are. None is while the priorities together can take all
// requests, however few healthy hosts one has.
func (l *loads) decidePanic(priorities []priority, b *model.Balancing, total uint64) (all bool) {
	if total == 100 {
		return false
	}
	all = true
	for i := range priorities {
		l.panic[i] = priorities[i].isInPanic(panicThreshold(b))
		all = all && l.panic[i]
	}
	return all
}

// panicThreshold is in percent, at most 100.
func panicThreshold(b *model.Balancing) uint64 {
	if b.PanicThreshold != nil {
		return uint64(min(100, *b.PanicThreshold))
	}
	return model.DefaultPanicThreshold
}

// isInPanic reports whether less than so many percent of the hosts can be used.
func (p *priority) isInPanic(threshold uint64) bool {
	usable, expected := uint64(len(p.healthy)+len(p.degraded)), uint64(len(p.all)-len(p.excluded))
	return threshold > 0 && (expected == 0 || usable*100 < threshold*expected)
}

// shareInPanic shares by the number of hosts, whatever their health.
func (l *loads) shareInPanic(priorities []priority) {
	hosts := make([]uint64, len(priorities))
	var sum uint64
	for i := range priorities {
		hosts[i] = uint64(len(priorities[i].all))
		sum += hosts[i]
	}
	if sum == 0 {
		return
	}
	left := uint64(100)
	for i, n := range hosts {
		l.healthy[i] = 100 * n / sum
		left -= l.healthy[i]
	}
	giveFirst(l.healthy, hosts, left)
}

// distribute gives each priority what it can take of the load, beside what it has, and returns what is left.
func distribute(load, availability []uint64, left, total uint64) uint64 {
	for i, a := range availability {
		more := min(left, a*100/total)
		load[i] += more
		left -= more
	}
	return left
}

// giveFirst adds to the first priority that can take anything, and reports whether there is one.
func giveFirst(load, availability []uint64, more uint64) bool {
	for i, a := range availability {
		if a > 0 {
			load[i] += more
			return true
		}
	}
	return false
}
