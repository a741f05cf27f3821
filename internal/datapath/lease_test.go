// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// What the program of these tests is asked for.
const (
	askForISocks = iota
	breakLease
	failLease
	beginLease
	takeLease
)

// leaseRig runs what programs do with leases.
type leaseRig struct {
	leaseParts
	t     *testing.T
	slots bpfmap.Table[uint32, maps.Slot]
}

type leaseParts struct {
	Program   *ebpf.Program `ebpf:"xlb_selftest_lease"`
	Endpoints *ebpf.Map     `ebpf:"endpoints"`
	Pools     *ebpf.Map     `ebpf:"pools"`
	Slots     *ebpf.Map     `ebpf:"slots"`
	Events    *ebpf.Map     `ebpf:"events"`
}

// roomForEvents is the smallest size of their buffer, in bytes.
var roomForEvents = os.Getpagesize()

func newLeaseRig(t *testing.T) *leaseRig {
	t.Helper()
	spec, err := loadXlb()
	must(t, err)
	spec.Maps["events"].MaxEntries = uint32(roomForEvents)
	r := &leaseRig{t: t}
	must(t, spec.LoadAndAssign(&r.leaseParts, nil))
	pages := bpfmap.NewPages("slots", r.Slots, spec.Maps["slots"].InnerMap)
	t.Cleanup(func() {
		must(t, errors.Join(r.Program.Close(), r.Endpoints.Close(), r.Pools.Close(), r.Slots.Close(), r.Events.Close(), pages.Close()))
	})
	r.slots = bpfmap.NewPagedTable[maps.Slot](pages)
	must(t, r.slots.Put(0, maps.Slot{}))
	return r
}

func (r *leaseRig) run(kind, index uint32, lease uint64) {
	r.t.Helper()
	packet := binary.NativeEndian.AppendUint32(nil, kind)
	packet = binary.NativeEndian.AppendUint32(packet, index)
	packet = binary.NativeEndian.AppendUint64(packet, lease)
	result, err := r.Program.Run(&ebpf.RunOptions{Data: maps.Packet(packet)})
	must(r.t, err)
	if result != 0 {
		r.t.Fatalf("run of the program: %d", int32(result))
	}
}

// wants reports whether programs believe that the daemon has been asked.
func (r *leaseRig) wants(pool uint32) bool {
	r.t.Helper()
	var p maps.Pool
	must(r.t, r.Pools.Lookup(pool, &p))
	return p.Want != 0
}

// A daemon that was kept from running finds its events' buffer full: what does not fit must be asked for again, or nobody ever would.
func TestWhatTheDaemonIsNotAskedForIsAskedForAgain(t *testing.T) {
	r := newLeaseRig(t)
	const most = 500
	lost := uint32(0)
	for ; lost < most; lost++ {
		if r.run(askForISocks, lost, 0); !r.wants(lost) {
			break
		}
	}
	events, err := ringbuf.NewReader(r.Events)
	must(t, err)
	defer events.Close()
	events.SetDeadline(time.Unix(1, 0)) // no waiting
	var heard uint32
	for {
		if _, err = events.Read(); err != nil {
			break
		}
		heard++
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if heard != lost {
		t.Fatalf("%d endpoints wait for i-socks, of %d the daemon has heard", lost, heard)
	}
	if r.run(askForISocks, lost, 0); !r.wants(lost) {
		t.Error("there is room, and the endpoint does not ask")
	}
}

// Who ends a lease may be late: the slot may be another's by then.
func TestProgramEndsTheLeaseThatItMeansAlone(t *testing.T) {
	r := newLeaseRig(t)
	leased := maps.Slot{State: uint32(maps.SlotLeased), Holder: 9, Lease: 9}
	broken := maps.Slot{State: uint32(maps.SlotBroken), Lease: 10, BrokenLease: 9}
	failed := broken
	failed.Holder = 9
	idle := maps.Slot{State: uint32(maps.SlotReady), Lease: 10}
	for _, tt := range []struct {
		name         string
		before, want maps.Slot
		kind         uint32
		lease        uint64
	}{
		{"the one that runs", leased, broken, breakLease, 9},
		{"the one that runs, and its client is to be told", leased, failed, failLease, 9},
		{"the one before", leased, leased, breakLease, 7},
		{"the one before, of which the client was to be told", leased, leased, failLease, 7},
		{"one that has ended", idle, idle, failLease, 9},
		{"one that has broken", broken, broken, failLease, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, r.slots.Put(1, tt.before))
			r.run(tt.kind, 1, tt.lease)
			if got, _, err := r.slots.Lookup(1); err != nil || got != tt.want {
				t.Errorf("slot: got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// A program may find a pool that has become another's, or a slot that has between its look at the owner and its lease. It gives up what is another
// workload's, and the counts are as before.
func TestProgramLeasesNoSlotOfAnotherWorkload(t *testing.T) {
	const own, other = 1, 2
	for _, tt := range []struct {
		name string
		kind uint32
		by   uint64
		want maps.SlotState
		// cancelled is how many leases have ended so.
		cancelled uint64
	}{
		{"its own, from the pool", beginLease, own, maps.SlotLeased, 0},
		{"another's, from the pool", beginLease, other, maps.SlotBroken, 0},
		{"its own, behind the look", takeLease, own, maps.SlotLeased, 0},
		{"another's, behind the look", takeLease, other, maps.SlotBroken, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLeaseRig(t)
			must(t, r.slots.Put(0, maps.Slot{State: uint32(maps.SlotReady), Workload: own}))
			must(t, r.Pools.Put(uint32(0), maps.Pool{Idle: 1}))
			r.run(tt.kind, 0, tt.by)
			s, _, err := r.slots.Lookup(0)
			must(t, err)
			if got := maps.SlotState(s.State); got != tt.want {
				t.Errorf("state of the slot: got %d, want %d", got, tt.want)
			}
			running := uint32(0)
			if tt.want == maps.SlotLeased {
				running = 1
			}
			var p maps.Pool
			var e maps.Endpoint
			must(t, errors.Join(r.Pools.Lookup(uint32(0), &p), r.Endpoints.Lookup(uint32(0), &e)))
			if p.Leased != running || e.Outstanding != running {
				t.Errorf("leases that run: of the pool %d, of the endpoint %d, want %d", p.Leased, e.Outstanding, running)
			}
			if e.Broken != tt.cancelled || e.Cancelled != tt.cancelled {
				t.Errorf("leases that have broken %d, cancelled %d, want %d of both", e.Broken, e.Cancelled, tt.cancelled)
			}
		})
	}
}
