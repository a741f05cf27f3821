// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// compared is the model with a look, in each state, at what the daemon's own code makes of it
// (internal/maps/lease.go): how it takes a slot, gives it back, and breaks a lease.
type compared struct {
	*machine
	shared *maps.Shared
	looks  int
	differ string
}

func (c *compared) next(s *state, emit func(step, *state)) {
	for i := range c.slots {
		c.look(s, i)
	}
	c.machine.next(s, emit)
}

func (c *compared) wrong(s *state, last bool) string {
	if c.differ != "" {
		return c.differ
	}
	return c.machine.wrong(s, last)
}

var codeStates = map[uint8]maps.SlotState{
	slotFree: maps.SlotFree, slotReady: maps.SlotReady, slotLeased: maps.SlotLeased, slotBroken: maps.SlotBroken,
}

// load puts the model's slots into the memory that daemon and programs share.
func (c *compared) load(s *state) {
	e, p := &c.shared.Endpoints[0], &c.shared.Pools[0]
	p.Idle, p.Leased, e.Outstanding = 0, uint32(s.outstanding), uint32(s.outstanding)
	for i := range s.slots {
		m, sl := &s.slots[i], &c.shared.Slots[i]
		sl.State, sl.Holder = uint32(codeStates[m.state]), uint32(m.holder)
		sl.Lease, sl.BrokenLease = uint64(m.lease), uint64(m.broken)
		sl.Stacked, sl.Next = uint32(m.stacked), 0
	}
	for _, i := range s.stack[:s.stacked] {
		c.shared.Slots[i].Next = uint32(p.Idle)
		p.Idle = uint64(i) + 1
	}
}

// same compares what both have come to.
func (c *compared) same(s *state, after string) {
	c.looks++
	if c.differ != "" {
		return
	}
	differs := func(what string, code, model any) {
		if code != model {
			c.differ = fmt.Sprintf("%s: %s is %v in the daemon's code and %v in the model", after, what, code, model)
		}
	}
	e := &c.shared.Endpoints[0]
	differs("count of leases at the endpoint", e.Outstanding, uint32(s.outstanding))
	differs("count of leases of the pool", c.shared.Pools[0].Leased, uint32(s.outstanding))
	top := uint32(0)
	if s.stacked > 0 {
		top = uint32(s.stack[s.stacked-1]) + 1
	}
	differs("uppermost slot", uint32(c.shared.Pools[0].Idle), top)
	for i := range s.slots {
		m, sl := &s.slots[i], &c.shared.Slots[i]
		slot := fmt.Sprintf("slot %d's ", i)
		differs(slot+"state", maps.SlotState(sl.State), codeStates[m.state])
		differs(slot+"lease", sl.Lease, uint64(m.lease))
		differs(slot+"broken lease", sl.BrokenLease, uint64(m.broken))
		differs(slot+"place", sl.Stacked != 0, m.stacked != 0)
		if m.state == slotLeased {
			differs(slot+"holder", sl.Holder, uint32(m.holder))
		}
	}
}

func (c *compared) look(s *state, i uint8) {
	n := *s
	c.load(&n)
	c.shared.Break(uint32(i))
	if n.slots[i].state == slotLeased {
		n.end(i, n.slots[i].holder, tellNothing)
	}
	n.discard(i)
	c.same(&n, "daemon breaks whatever there is")

	for _, lease := range []uint8{s.slots[i].lease, s.slots[i].holder, s.slots[i].broken} {
		n = *s
		c.load(&n)
		c.shared.BreakLease(maps.Lease{Slot: uint32(i), Number: uint64(lease)})
		n.end(i, lease, tellNothing)
		c.same(&n, fmt.Sprintf("daemon breaks lease %d", lease))
	}

	n = *s
	c.load(&n)
	at, ok := n.pop()
	if got := c.shared.Pop(0); ok != (got != maps.NoSlot) || ok && got != uint32(at) {
		c.differ = fmt.Sprintf("daemon pops %d, the model %d, %v", got, at, ok)
	}
	c.same(&n, "daemon pops")

	if s.slots[i].stacked == 0 && s.slots[i].state == slotReady {
		n = *s
		c.load(&n)
		c.shared.Push(uint32(i))
		n.push(i)
		c.same(&n, "daemon pushes")
	}
}

func TestModelDoesWhatTheDaemonDoes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ends", "early, two i-socks"} {
		c := &compared{machine: &machine{scenarioOf(t, name), after}}
		c.shared = maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: slotCount})
		got, err := explore(c, mostStates)
		if err != nil {
			t.Fatal(err)
		}
		if got.wrong != "" {
			t.Fatal(got.wrong)
		}
		t.Logf("%q: %d looks", name, c.looks)
	}
}
