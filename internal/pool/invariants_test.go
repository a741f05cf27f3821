// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/workload"
)

// inconsistentLocked is what contradicts itself in the pool's books at a moment when nobody changes them, "" for nothing. Taken are the free slots that
// the test has hidden.
func (r *rig) inconsistentLocked(taken []uint32) string {
	for _, find := range []func() string{
		r.endpointsLocked, r.originsLocked, r.isocksLocked, func() string { return r.slotsLocked(taken) }, func() string { return r.usageLocked(taken) },
		r.stacksLocked, r.poolsLocked,
	} {
		if wrong := find(); wrong != "" {
			return wrong
		}
	}
	return ""
}

// eachLocked does something with each subpool, until that finds something wrong.
func (r *rig) eachLocked(do func(*subpool) (wrong string)) string {
	for index, d := range r.p.destinations {
		for id, sub := range d.subpools {
			if sub.destination != d || sub.from.ID != id || sub.Index != index {
				return fmt.Sprintf("subpool of workload %d to endpoint %d is listed as that of %d to %d", sub.from.ID, sub.Index, id, index)
			}
			if wrong := do(sub); wrong != "" {
				return fmt.Sprintf("workload %d, endpoint %d: %s: %+v", id, index, wrong, *sub)
			}
		}
	}
	return ""
}

func (r *rig) endpointsLocked() string {
	wanted, ofCluster, outstanding := 0, map[clusterKey]uint32{}, map[uint32]uint32{}
	for index, d := range r.p.destinations {
		if !d.removed {
			wanted++
		}
		switch {
		case d.removed && len(d.subpools) == 0:
			return fmt.Sprintf("endpoint %d has gone, and is not forgotten", index)
		case !d.removed && (d.host() == nil) != r.p.cfg.NoHost:
			return fmt.Sprintf("endpoint %d: i-socks of the host: %+v", index, d.host())
		}
		if wrong := r.reachLocked(d); wrong != "" {
			return fmt.Sprintf("endpoint %d: %s: %+v", index, wrong, d.reach)
		}
	}
	if wrong := r.eachLocked(func(sub *subpool) string {
		if n := uint32(sub.open + sub.dialing); n > 0 {
			ofCluster[sub.clusterKey()] += n
		}
		leased, wrong := r.subpoolLocked(sub)
		outstanding[sub.Index] += leased
		return wrong
	}); wrong != "" {
		return wrong
	}
	for index := range r.p.destinations {
		if got := r.shared.Endpoints[index].Outstanding; got != outstanding[index] {
			return fmt.Sprintf("endpoint %d: %d leases, %d requests outstanding", index, outstanding[index], got)
		}
	}
	if wanted != r.p.active {
		return fmt.Sprintf("endpoints that are wanted: counted %d, got %d", r.p.active, wanted)
	}
	if fmt.Sprint(ofCluster) != fmt.Sprint(r.p.ofCluster) {
		return fmt.Sprintf("i-socks of clusters: counted %v, got %v", r.p.ofCluster, ofCluster)
	}
	return r.usersLocked()
}

// usersLocked sees that the workloads that have i-socks to a cluster are listed, and no others.
func (r *rig) usersLocked() string {
	listed, probers := 0, 0
	for cluster, users := range r.p.users {
		for o := range users {
			if listed++; r.p.ofCluster[clusterKey{o.ID, cluster}] == 0 {
				return fmt.Sprintf("workload %d is listed as a user of %s", o.ID, cluster)
			}
		}
	}
	for _, o := range r.p.origins {
		if probers += o.probing; o.probing > len(o.probes) || o.probing > maxProbesOfWorkload || o.probing == 0 && len(o.probes) > 0 {
			return fmt.Sprintf("workload %d: %d of %d probes are in progress", o.ID, o.probing, len(o.probes))
		}
	}
	if listed != len(r.p.ofCluster) || probers > r.p.probers {
		return fmt.Sprintf("users of clusters: %d are listed, want %d; probers: counted %d, got %d", listed, len(r.p.ofCluster), r.p.probers, probers)
	}
	return ""
}

// reachLocked sees that an endpoint is out of service for a reason, and as long as it lasts.
func (r *rig) reachLocked(d *destination) string {
	switch isDown := r.p.downLocked(d); {
	case isDown != (d.missed && d.witness == nil):
		return fmt.Sprintf("out of service %t", isDown)
	case d.missed && (d.removed || d.host() == nil || d.host().open > 0 || d.host().backoff == 0):
		return "missed without a reason"
	case d.missed && r.p.others > 0 && d.Address.Addr().IsLoopback():
		return "missed, and other workloads have another server there"
	case d.witness != nil && (!d.missed || d.witness.left || d.witness.ID == workload.Host):
		return "a witness of nothing"
	case d.prober != nil && (d.prober.left || !slices.Contains(d.prober.probes, d)):
		return "it waits for a probe that does not come"
	}
	return ""
}

// originsLocked sees that workloads are counted, and that nothing is listed that is not known.
func (r *rig) originsLocked() string {
	others, subpools := 0, map[*origin]int{}
	r.eachLocked(func(sub *subpool) string { subpools[sub.from]++; return "" })
	for id, o := range r.p.origins {
		if o.ID != workload.Host && !o.left {
			others++
		}
		if o.ID != id || o.subpools != subpools[o] || o.left && o.subpools == 0 {
			return fmt.Sprintf("workload %d (%+v), which has %d subpools", id, o, subpools[o])
		}
		delete(subpools, o)
	}
	if len(subpools) > 0 || others != r.p.others {
		return fmt.Sprintf("workloads that are unknown and have i-socks: %d; that have joined: counted %d, got %d", len(subpools), r.p.others, others)
	}
	for _, some := range []map[*subpool]struct{}{r.p.live, r.p.leaving} {
		for sub := range some {
			if d := r.p.destinations[sub.Index]; d == nil || d.subpools[sub.from.ID] != sub {
				return fmt.Sprintf("i-socks of workload %d to endpoint %d are listed and not known", sub.from.ID, sub.Index)
			}
		}
	}
	return ""
}

func (r *rig) subpoolLocked(sub *subpool) (leased uint32, wrong string) {
	dead := 0
	for place, s := range sub.isocks {
		sl := &r.shared.Slots[s.slot]
		if s.sub != sub || s.position != place || r.p.isocks[s.slot] != s {
			return 0, fmt.Sprintf("slot %d is listed and not its own", s.slot)
		}
		if sl.Endpoint != sub.Index || workload.ID(sl.Workload) != sub.from.ID || sl.Pool != sub.pool {
			return 0, fmt.Sprintf("slot %d is that of workload %d, endpoint %d, pool %d", s.slot, sl.Workload, sl.Endpoint, sl.Pool)
		}
		if r.shared.State(s.slot) == maps.SlotLeased {
			leased++
		}
	}
	for slot, of := range r.p.zombies {
		if of == sub {
			dead++
		}
		if sl := &r.shared.Slots[slot]; of == sub && (sl.Endpoint != sub.Index || workload.ID(sl.Workload) != sub.from.ID) {
			return 0, fmt.Sprintf("closed slot %d is that of workload %d, endpoint %d", slot, sl.Workload, sl.Endpoint)
		}
	}
	_, isLive := r.p.live[sub]
	_, isLeaving := r.p.leaving[sub]
	shared := r.p.sharedLocked(sub)
	known := r.poolOf(sub.from.ID, sub.Index)
	switch {
	case sub.open != len(sub.isocks) || sub.open < 0 || sub.dialing < 0:
		wrong = fmt.Sprintf("it has %d i-socks", len(sub.isocks))
	case sub.dead != dead:
		wrong = fmt.Sprintf("%d of its slots are closed", dead)
	case isLive != (sub.open > 0) || isLeaving != sub.gone():
		wrong = fmt.Sprintf("in the lists of those with i-socks %t, of those that leave %t", isLive, isLeaving)
	case (shared == nil) != sub.empty() || known != sub.pool:
		wrong = fmt.Sprintf("programs find it in pool %d", known)
	case shared != nil && shared.Leased != leased:
		wrong = fmt.Sprintf("%d leases, %d counted", leased, shared.Leased)
	case sub.gone() && (sub.retry != nil || sub.empty()):
		wrong = "it waits for a retry, or for nothing, although it is gone"
	case !sub.gone() && sub.backoff > 0 && sub.retry == nil && sub.dialing == 0:
		wrong = "it is avoided, and nothing will change that"
	}
	return leased, wrong
}

func (r *rig) isocksLocked() string {
	for slot, s := range r.p.isocks {
		sub := s.sub
		if d := r.p.destinations[sub.Index]; d == nil || d.subpools[sub.from.ID] != sub || s.position >= len(sub.isocks) || sub.isocks[s.position] != s {
			return fmt.Sprintf("i-sock of slot %d is not its subpool's", slot)
		}
		switch state := r.shared.State(slot); state {
		case maps.SlotReady, maps.SlotLeased, maps.SlotBroken:
		default:
			return fmt.Sprintf("i-sock of slot %d in state %d", slot, state)
		}
	}
	return ""
}

// poolsLocked sees that no pool is lost, and that no two subpools have the same.
func (r *rig) poolsLocked() string {
	seen := map[uint32]bool{}
	for _, pool := range r.p.pools {
		if shared := &r.shared.Pools[pool]; seen[pool] || uint32(shared.Idle) != 0 || shared.Leased != 0 {
			return fmt.Sprintf("free pool %d: twice %t, %+v", pool, seen[pool], *shared)
		}
		seen[pool] = true
	}
	wrong := r.eachLocked(func(sub *subpool) string {
		switch {
		case sub.pool == noPool:
		case seen[sub.pool]:
			return "its pool is another's, or free"
		default:
			seen[sub.pool] = true
		}
		return ""
	})
	if wrong == "" && (len(seen) != len(r.shared.Pools) || size(r.pools) != len(seen)-len(r.p.pools)) {
		wrong = fmt.Sprintf("pools: %d free, %d in use, want %d in all; programs know %d",
			len(r.p.pools), len(seen)-len(r.p.pools), len(r.shared.Pools), size(r.pools))
	}
	return wrong
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
	r.eachLocked(func(sub *subpool) string { dialing += sub.dialing; return "" })
	if got, want := len(seen)+dialing, len(r.shared.Slots); got != want {
		return fmt.Sprintf("slots: %d free, %d closed, %d open, %d being opened, want %d in all", len(free), len(r.p.zombies), len(r.p.isocks), dialing, want)
	}
	return ""
}

// usageLocked sees that each slot that is not free counts in the account of its workload.
func (r *rig) usageLocked(taken []uint32) string {
	usage := r.p.Usage()
	if want := len(r.shared.Slots) - len(r.p.free) - len(taken); usage.Taken != want {
		return fmt.Sprintf("slots in use: counted %d, got %d", usage.Taken, want)
	}
	accounts := map[workload.ID]int{}
	for _, o := range r.p.origins {
		accounts[o.Account()]++
	}
	if got := r.p.slots.Joined(); got != len(accounts) {
		return fmt.Sprintf("accounts with workloads: counted %d, got %v", got, accounts)
	}
	slots := map[workload.ID]int{}
	r.eachLocked(func(sub *subpool) string { slots[sub.from.Account()] += sub.open + sub.dialing + sub.dead; return "" })
	for id, of := range usage.By {
		if accounts[id] == 0 || of.Taken != slots[id] {
			return fmt.Sprintf("slots of account %d, which is known %t: counted %d, got %d", id, accounts[id] != 0, of.Taken, slots[id])
		}
		delete(slots, id)
	}
	for id, n := range slots {
		if n > 0 {
			return fmt.Sprintf("slots of account %d: counted none, got %d", id, n)
		}
	}
	return ""
}

// stacksLocked sees that idle i-socks are found, each in one place.
func (r *rig) stacksLocked() string {
	stacked := map[uint32]bool{}
	for index := range r.shared.Pools {
		for next := uint32(r.shared.Pools[index].Idle); next != 0; next = r.shared.Slots[next-1].Next {
			slot := next - 1
			if sl := &r.shared.Slots[slot]; stacked[slot] || sl.Stacked == 0 || int(sl.Pool) != index {
				return fmt.Sprintf("slot %d of pool %d in the stack of pool %d: marked %d, twice %t", slot, sl.Pool, index, sl.Stacked, stacked[slot])
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
