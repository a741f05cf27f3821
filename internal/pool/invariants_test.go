// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/maps"
)

// inconsistentLocked is what contradicts itself in the pool's books at a moment when nobody changes them, "" for nothing. Taken are the free slots that
// the test has hidden.
func (r *rig) inconsistentLocked(taken []uint32) string {
	for _, find := range []func() string{r.endpointsLocked, r.isocksLocked, func() string { return r.slotsLocked(taken) }, r.stacksLocked} {
		if wrong := find(); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (r *rig) endpointsLocked() string {
	wanted, ofCluster := 0, map[string]uint32{}
	for index, e := range r.p.endpoints {
		if n := uint32(e.open + e.dialing); n > 0 {
			ofCluster[e.Cluster] += n
		}
		if !e.gone {
			wanted++
		}
		if wrong := r.endpointLocked(index, e); wrong != "" {
			return fmt.Sprintf("endpoint %d: %s: %+v", index, wrong, *e)
		}
	}
	if wanted != r.p.active {
		return fmt.Sprintf("endpoints that are wanted: counted %d, got %d", r.p.active, wanted)
	}
	if fmt.Sprint(ofCluster) != fmt.Sprint(r.p.ofCluster) {
		return fmt.Sprintf("i-socks of clusters: counted %v, got %v", r.p.ofCluster, ofCluster)
	}
	for _, some := range []map[uint32]*endpoint{r.p.live, r.p.leaving} {
		for index, e := range some {
			if r.p.endpoints[index] != e {
				return fmt.Sprintf("endpoint %d is listed and not known", index)
			}
		}
	}
	return ""
}

func (r *rig) endpointLocked(index uint32, e *endpoint) string {
	leased, dead := uint32(0), 0
	for place, s := range e.isocks {
		if s.endpoint != index || s.position != place || r.p.isocks[s.slot] != s {
			return fmt.Sprintf("slot %d is listed and not its own", s.slot)
		}
		if r.shared.State(s.slot) == maps.SlotLeased {
			leased++
		}
	}
	for slot := range r.p.zombies {
		if r.shared.Slots[slot].Endpoint == index {
			dead++
		}
	}
	isLive, isLeaving, isDown := r.p.live[index] != nil, r.p.leaving[index] != nil, r.p.downLocked(e)
	switch {
	case e.Index != index:
		return "known by another's index"
	case e.open != len(e.isocks) || e.open < 0 || e.dialing < 0:
		return fmt.Sprintf("it has %d i-socks", len(e.isocks))
	case e.dead != dead:
		return fmt.Sprintf("%d of its slots are closed", dead)
	case isLive != (e.open > 0) || isLeaving != e.gone:
		return fmt.Sprintf("in the lists of those with i-socks %t, of those that leave %t", isLive, isLeaving)
	case r.shared.Endpoints[index].Outstanding != leased:
		return fmt.Sprintf("%d leases, %d requests outstanding", leased, r.shared.Endpoints[index].Outstanding)
	case e.gone && (e.retry != nil || e.open+e.dialing+e.dead == 0):
		return "it waits for a retry, or for nothing, although it is gone"
	case !e.gone && e.backoff > 0 && e.retry == nil && e.dialing == 0:
		return "it is avoided, and nothing will change that"
	case isDown && (e.open > 0 || e.backoff == 0 && !e.gone):
		return "it is out of service without a reason"
	case isDown && e.gone:
		return "it is out of service although nobody tries it"
	}
	return ""
}

func (r *rig) isocksLocked() string {
	for slot, s := range r.p.isocks {
		if e := r.p.endpoints[s.endpoint]; e == nil || s.position >= len(e.isocks) || e.isocks[s.position] != s {
			return fmt.Sprintf("i-sock of slot %d is not its endpoint's", slot)
		}
		switch state := r.shared.State(slot); state {
		case maps.SlotReady, maps.SlotLeased, maps.SlotBroken:
		default:
			return fmt.Sprintf("i-sock of slot %d in state %d", slot, state)
		}
	}
	return ""
}

// slotsLocked sees that none is lost, and none another's as well.
func (r *rig) slotsLocked(taken []uint32) string {
	free := append(append([]uint32(nil), r.p.free...), taken...)
	seen, dialing := map[uint32]bool{}, 0
	for _, slot := range free {
		if state := r.shared.State(slot); state != maps.SlotFree || seen[slot] {
			return fmt.Sprintf("free slot %d: state %d, twice %t", slot, state, seen[slot])
		}
		seen[slot] = true
	}
	for slot := range r.p.zombies {
		if state := r.shared.State(slot); state != maps.SlotBroken || seen[slot] || r.p.isocks[slot] != nil {
			return fmt.Sprintf("slot %d of a closed i-sock: state %d, free %t, open %t", slot, state, seen[slot], r.p.isocks[slot] != nil)
		}
		seen[slot] = true
	}
	for slot := range r.p.isocks {
		if seen[slot] {
			return fmt.Sprintf("slot %d is in use and free", slot)
		}
		seen[slot] = true
	}
	for _, e := range r.p.endpoints {
		dialing += e.dialing
	}
	if got, want := len(seen)+dialing, len(r.shared.Slots); got != want {
		return fmt.Sprintf("slots: %d free, %d closed, %d open, %d being opened, want %d in all", len(free), len(r.p.zombies), len(r.p.isocks), dialing, want)
	}
	return ""
}

// stacksLocked sees that idle i-socks are found, each in one place.
func (r *rig) stacksLocked() string {
	stacked := map[uint32]bool{}
	for index := range r.shared.Endpoints {
		for next := uint32(r.shared.Endpoints[index].Idle); next != 0; next = r.shared.Slots[next-1].Next {
			slot := next - 1
			if sl := &r.shared.Slots[slot]; stacked[slot] || sl.Stacked == 0 || int(sl.Endpoint) != index {
				return fmt.Sprintf("slot %d of endpoint %d in the stack of endpoint %d: marked %d, twice %t", slot, sl.Endpoint, index, sl.Stacked, stacked[slot])
			}
			stacked[slot] = true
		}
	}
	for slot := range r.p.isocks {
		if r.shared.State(slot) == maps.SlotReady && !stacked[slot] {
			return fmt.Sprintf("idle slot %d is in no stack", slot)
		}
	}
	return ""
}
