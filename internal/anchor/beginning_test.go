// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// worker plays the program that says how many messages are on their way to a client.
type worker struct {
	t *testing.T
	// answers holds what the program answers, and how often it was run.
	answers *ebpf.Map
}

func newWorker(t *testing.T, r *rig) worker {
	t.Helper()
	w := worker{t: t, answers: newMap(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Apache-2.0",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, w.answers.FD(), 0),
			asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R1, 8, asm.R2, asm.DWord),
			asm.LoadMem(asm.R0, asm.R1, 0, asm.DWord),
			asm.Return(),
		},
	})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	r.cfg.Sockets.SetQueued(p)
	return w
}

func (w worker) set(messages uint64) {
	w.t.Helper()
	must(w.t, w.answers.Put(uint32(0), [2]uint64{messages, 0}))
}

// awaitRuns waits until the program has been run so often since the last set.
func (w worker) awaitRuns(n uint64) {
	w.t.Helper()
	await.Quiet(w.t, func() string {
		var at [2]uint64
		if err := w.answers.Lookup(uint32(0), &at); err != nil {
			return err.Error()
		}
		if at[1] < n {
			return fmt.Sprintf("looks at the queue: got %d, want %d", at[1], n)
		}
		return ""
	})
}

// newBeginning is a client for which the worker has the beginning of a response.
func newBeginning(t *testing.T) (*rig, worker, *client) {
	t.Helper()
	r := newRig(t, setup{})
	w := newWorker(t, r)
	c := r.dial()
	r.awaitOpen(1)
	w.set(3)
	return r, w, c
}

// What comes over TCP while a worker has bytes for the client wakes it in vain.
func TestRestOfAResponseWaitsForItsBeginning(t *testing.T) {
	t.Parallel()
	r, w, c := newBeginning(t)
	var written atomic.Bool
	used := make(chan bool, 1)
	go func() {
		used <- r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(conn net.Conn) (uint64, Outcome) {
			written.Store(true)
			return write("rest", r.keep(maps.Lease{}))(conn)
		})
	}()
	w.awaitRuns(6)
	if written.Load() {
		t.Error("the rest was written while the beginning was on its way")
	}
	w.set(0)
	if !await.Next(t, used, "use") {
		t.Error("use of an open connection: got false, want true")
	}
	c.mustReceive("rest")
}

// Bytes of a server on this host lie in the client's queue when its send goes on.
func TestRestOfAResponseFromThisHostDoesNotWait(t *testing.T) {
	t.Parallel()
	r, w, c := newBeginning(t)
	atomic.StoreUint32(&r.shared.Slots[2].Flags, uint32(maps.SlotLocal))
	l := maps.Lease{Slot: 2, Number: 7}
	if !r.s.Use(c.cookie, l, maps.VerdictSpilled, write("rest", Runs)) {
		t.Error("use of an open connection: got false, want true")
	}
	c.mustReceive("rest")
	var at [2]uint64
	must(t, w.answers.Lookup(uint32(0), &at))
	if at[1] != 0 {
		t.Errorf("looks at the queue: got %d, want 0", at[1])
	}
}
