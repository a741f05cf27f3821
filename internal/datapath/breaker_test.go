// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
)

// Requests to the program of these tests: enum breaker_test_kind.
const (
	enterCluster = iota
	leaveCluster
	enterAndLeave
)

// breakerRig counts requests as programs do, in the maps that the daemon shares with them.
type breakerRig struct {
	t       *testing.T
	shared  *maps.Shared
	breaker *ebpf.Program
	lease   *ebpf.Program
}

// limitOfRig is that of its clusters, 0 and 1.
const limitOfRig = 2

func newBreakerRig(t *testing.T) *breakerRig {
	t.Helper()
	d, err := Load(Options{FastPath: true})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	spec, err := loadXlb()
	must(t, err)
	var loaded struct {
		Breaker *ebpf.Program `ebpf:"xlb_selftest_breaker"`
		Lease   *ebpf.Program `ebpf:"xlb_selftest_lease"`
	}
	m := &d.objects.xlbMaps
	shared := map[string]*ebpf.Map{"clusters": m.Clusters, "load_sets": m.LoadSets, "slots": m.Slots, "endpoints": m.Endpoints, "pools": m.Pools}
	must(t, spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: shared}))
	t.Cleanup(func() {
		must(t, loaded.Breaker.Close())
		must(t, loaded.Lease.Close())
	})
	must(t, d.Shared.Hold(maps.GrowingSlots, 0, 1))
	r := &breakerRig{t: t, shared: d.Shared, breaker: loaded.Breaker, lease: loaded.Lease}
	for index := range uint32(2) {
		r.begin(index)
	}
	return r
}

// begin has the index be a new cluster's.
func (r *breakerRig) begin(index uint32) {
	r.shared.NewCluster(index)
	r.shared.SetLimit(index, limitOfRig)
}

func (r *breakerRig) owner(cluster, account uint32) maps.LoadOwner {
	return maps.LoadOwner{Account: account, Cluster: r.shared.ClusterNumber(cluster)}
}

func (r *breakerRig) run(kind, cluster, account, n uint32) int32 {
	var packet []byte
	for _, v := range []uint32{kind, cluster, account, n} {
		packet = binary.NativeEndian.AppendUint32(packet, v)
	}
	answer, err := r.breaker.Run(&ebpf.RunOptions{Data: maps.Packet(packet)})
	if err != nil {
		r.t.Error(err)
	}
	return int32(answer)
}

// enter has the kernel count a request; ok is false where it would hand it to the daemon.
func (r *breakerRig) enter(cluster, account uint32) (entry maps.LoadEntry, ok bool) {
	answer := r.run(enterCluster, cluster, account, 0)
	return maps.LoadEntry(max(answer, 0)), answer >= 0
}

func (r *breakerRig) mustEnter(cluster, account uint32) maps.LoadEntry {
	r.t.Helper()
	entry, ok := r.enter(cluster, account)
	if !ok || entry == 0 {
		r.t.Fatalf("a request of account %d to cluster %d is not counted, %d are in flight", account, cluster, r.shared.ActiveLoad(r.owner(cluster, account)))
	}
	return entry
}

func (r *breakerRig) leave(entry maps.LoadEntry) { r.run(leaveCluster, 0, 0, uint32(entry)) }

// requireNone fails if anything counts.
func (r *breakerRig) requireNone() {
	r.t.Helper()
	for i := range r.shared.LoadSets {
		for entry, l := range r.shared.LoadSets[i].Loads {
			if l != (maps.Load{}) {
				r.t.Errorf("entry %d of set %d is left with %d in flight, %d waiting", entry, i, int32(l.Active), int32(l.Waiting))
			}
		}
	}
}

// inOneSet returns so many accounts whose requests to a cluster are counted in one set, and which that is.
func (r *breakerRig) inOneSet(cluster uint32, n int) (accounts []uint32, set *maps.LoadSet) {
	bySet := map[int][]uint32{}
	for account := uint32(1); ; account++ {
		entry := r.mustEnter(cluster, account)
		r.leave(entry)
		at := int(entry-1) / len(maps.LoadSet{}.Owners)
		if bySet[at] = append(bySet[at], account); len(bySet[at]) == n {
			clear(r.shared.LoadSets)
			return bySet[at], &r.shared.LoadSets[at]
		}
	}
}

// The kernel and the daemon count an account's requests at one entry, and each account has the limit for itself.
func TestBothPathsCountAnAccountAtOnePlace(t *testing.T) {
	r := newBreakerRig(t)
	for account := range uint32(1000) {
		for cluster := range uint32(2) {
			owner := r.owner(cluster, account)
			kernel := r.mustEnter(cluster, account)
			daemon, ok := r.shared.EnterLoad(owner, limitOfRig)
			if !ok || daemon != kernel {
				t.Fatalf("%+v: the kernel counts at %d, the daemon at %d, %t", owner, kernel, daemon, ok)
			}
			if _, ok := r.enter(cluster, account); ok {
				t.Fatalf("%+v: the kernel begins one more than the limit", owner)
			}
			r.leave(daemon)
			r.shared.LeaveLoad(kernel)
			hold := r.shared.HoldLoad(owner)
			if _, ok := r.enter(cluster, account); ok {
				t.Fatalf("%+v: the kernel takes the entry of a request that waits", owner)
			}
			r.shared.ReleaseLoad(hold)
		}
	}
	r.requireNone()
}

// An account at its limit refuses nothing of another, nor of its own to another cluster.
func TestAnAccountAtItsLimitRefusesNothingOfAnother(t *testing.T) {
	r := newBreakerRig(t)
	var entries []maps.LoadEntry
	for account := range uint32(100) {
		for range limitOfRig {
			entries = append(entries, r.mustEnter(0, account))
		}
		if _, ok := r.enter(0, account); ok {
			t.Errorf("account %d: a request over the limit is counted", account)
		}
		entries = append(entries, r.mustEnter(1, account))
	}
	for _, p := range entries {
		r.leave(p)
	}
	r.requireNone()
}

// Where all entries of a set are others', kernel and daemon count at the same one of them, and take from it what they have counted, also when an entry has come
// free meanwhile.
func TestBothPathsShareAPlaceWhereASetIsFull(t *testing.T) {
	r := newBreakerRig(t)
	accounts, set := r.inOneSet(0, len(maps.LoadSet{}.Owners)+1)
	for i := range set.Owners {
		set.Owners[i] = 1<<32 | 1<<30 // of a cluster that there is not
	}
	account := accounts[0]
	kernel := r.mustEnter(0, account)
	daemon, ok := r.shared.EnterLoad(r.owner(0, account), limitOfRig)
	if !ok || daemon != kernel {
		t.Errorf("the kernel counts at %d, the daemon at %d, %t", kernel, daemon, ok)
	}
	if _, ok := r.enter(0, account); ok {
		t.Error("one more than the limit is counted")
	}
	set.Owners[3] = 0
	own := r.mustEnter(0, account)
	if own == kernel {
		t.Error("the account shares an entry although one is free")
	}
	for _, p := range []maps.LoadEntry{own, daemon, kernel} {
		r.leave(p)
	}
	r.requireNone()
}

// Accounts of one hash take entries as they come, whichever side is first, and find them again behind those that have been retired and freed.
func TestTheKernelTakesNoRetiredPlace(t *testing.T) {
	r := newBreakerRig(t)
	accounts, _ := r.inOneSet(0, 3)
	first := r.mustEnter(0, accounts[0])
	kept := r.mustEnter(0, accounts[1])
	r.leave(first)
	r.shared.SweepLoads()
	next := r.mustEnter(0, accounts[0])
	if next == first {
		t.Error("a request is counted at an entry that is retired")
	}
	r.shared.SweepLoads()
	// The account is found behind the free entry, which is not its any more.
	if again := r.mustEnter(0, accounts[0]); again != next {
		t.Errorf("the account has entries %d and %d", next, again)
	} else {
		r.leave(again)
	}
	if taken := r.mustEnter(0, accounts[2]); taken != first {
		t.Errorf("the next account is counted at %d, want the entry that was freed, %d", taken, first)
	} else {
		r.leave(taken)
	}
	r.leave(next)
	r.leave(kept)
	r.requireNone()
}

// However the kernel ends a lease it is taken from the entry that counts it, once.
func TestALeaseIsTakenFromItsPlaceOnce(t *testing.T) {
	r := newBreakerRig(t)
	for _, tt := range []struct {
		name string
		end  func(r *breakerRig)
	}{
		{"broken by a program", func(r *breakerRig) { r.mustEnd(breakLease) }},
		{"failed by a program", func(r *breakerRig) { r.mustEnd(failLease) }},
		{"broken by the daemon", func(r *breakerRig) { r.shared.Break(0) }},
		{"by the daemon, whose client left", func(r *breakerRig) { r.shared.CancelLease(maps.Lease{Slot: 0, Number: 9}) }},
		{"taken by who goes on with it", func(r *breakerRig) { r.shared.LeaveLoad(r.shared.Slots[0].TakeCounted()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entry := r.mustEnter(0, 7)
			// Another one, which must stay.
			other := r.mustEnter(0, 7)
			sl := &r.shared.Slots[0]
			*sl = maps.Slot{State: uint32(maps.SlotLeased), Holder: 9, Lease: 9, Counted: uint32(entry)}
			for range 2 {
				tt.end(r)
			}
			r.mustEnd(breakLease)
			r.shared.Break(0)
			r.shared.Free(0)
			if got := r.shared.ActiveLoad(r.owner(0, 7)); got != 1 || sl.Counted != 0 {
				t.Errorf("%d in flight, slot counted at %d; want the other request alone", int32(got), sl.Counted)
			}
			r.leave(other)
			r.requireNone()
		})
	}
}

// mustEnd has a program end the lease of slot 0.
func (r *breakerRig) mustEnd(kind uint32) {
	r.t.Helper()
	packet := binary.NativeEndian.AppendUint32(nil, kind)
	packet = binary.NativeEndian.AppendUint32(packet, 0)
	packet = binary.NativeEndian.AppendUint64(packet, 9)
	result, err := r.lease.Run(&ebpf.RunOptions{Data: maps.Packet(packet)})
	must(r.t, err)
	if result != 0 {
		r.t.Fatalf("run of the program: %d", int32(result))
	}
}

// Requests of accounts of one hash come and go on both paths while entries are swept and indices become other clusters'. Nothing is left of them.
func TestNothingIsLeftOfRequestsWhilePlacesAreSwept(t *testing.T) {
	r := newBreakerRig(t)
	accounts, _ := r.inOneSet(0, len(maps.LoadSet{}.Owners)+3)
	var ended atomic.Bool
	var others, clients sync.WaitGroup
	others.Go(func() {
		for !ended.Load() {
			r.shared.SweepLoads()
		}
	})
	others.Go(func() {
		for !ended.Load() {
			r.begin(1)
		}
	})
	for range 2 {
		clients.Go(func() {
			for range 300 {
				r.run(enterAndLeave, rand.N(uint32(2)), accounts[rand.N(len(accounts))], 500)
			}
		})
		clients.Go(func() {
			for range 5000 {
				cluster, account := rand.N(uint32(2)), accounts[rand.N(len(accounts))]
				kernel, _ := r.enter(cluster, account)
				owner := r.owner(cluster, account)
				r.shared.ReleaseLoad(r.shared.HoldLoad(owner))
				if daemon, ok := r.shared.EnterLoad(owner, limitOfRig); ok {
					r.leave(daemon)
				}
				r.shared.LeaveLoad(kernel)
			}
		})
	}
	clients.Wait()
	ended.Store(true)
	others.Wait()
	r.requireNone()
	for range 2 {
		r.shared.SweepLoads()
	}
	for i := range r.shared.LoadSets {
		if r.shared.LoadSets[i] != (maps.LoadSet{}) {
			t.Errorf("set %d has owners at the end: %+v", i, r.shared.LoadSets[i])
		}
	}
}
