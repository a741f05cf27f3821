// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/workloadtest"
)

// newScheduler is one in which one piece of work runs at a time.
func newScheduler() *shares.Scheduler {
	return shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 1})
}

// heldTable is a table in which the look-ups of one key wait.
type heldTable[K comparable, V any] struct {
	bpfmap.Table[K, V]
	held          func(K) bool
	asked, answer chan struct{}
	once          *sync.Once
}

func hold[K comparable, V any](t bpfmap.Table[K, V], held func(K) bool) heldTable[K, V] {
	return heldTable[K, V]{t, held, make(chan struct{}), make(chan struct{}), &sync.Once{}}
}

func (h heldTable[K, V]) Lookup(k K) (V, bool, error) {
	if h.held(k) {
		h.once.Do(func() { close(h.asked) })
		<-h.answer
	}
	return h.Table.Lookup(k)
}

// A client that ends leaves thousands of connections at once. While they are closed the poller serves others, also those of the same client that it has still.
func TestClosingKeepsNoOtherConnectionWaiting(t *testing.T) {
	t.Parallel()
	r := prepare(t, setup{slowPathOnly: true})
	r.cfg.Scheduler = newScheduler()
	var closing atomic.Uint64
	held := hold(r.cfg.Sockets.SlowConns, func(cookie uint64) bool { return cookie == closing.Load() })
	r.cfg.Sockets.SlowConns = held
	r.open()
	leaving, staying := r.dial(), r.dial()
	staying.exchange("before")
	r.awaitOpen(2)
	closing.Store(leaving.cookie)
	must(t, leaving.Close())
	await.Next(t, held.asked, "a connection that is being closed")
	staying.exchange("meanwhile")
	close(held.answer)
	r.awaitOpen(1)
}

// What it takes to accept connections of a workload, and to close those that their clients have left, is done for their clients: their tenants have had that time.
func TestAcceptingAndClosingCountForTheTenant(t *testing.T) {
	for _, slowPathOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow path only %v", slowPathOnly), func(t *testing.T) {
			t.Parallel()
			r := prepare(t, setup{slowPathOnly: slowPathOnly})
			r.cfg.Scheduler = newScheduler()
			r.open()
			var c *client
			r.within(r.joined(1), func() { c = r.dial() })
			r.s.Announced()
			await.Quiet(t, func() string {
				if n := r.s.countOpen(1); n != 1 {
					return fmt.Sprintf("%d connections are accepted, want 1", n)
				}
				return ""
			})
			accepted := r.cfg.Scheduler.Counts().Worked
			if accepted == 0 {
				t.Error("to accept has taken no time")
			}
			must(t, r.psocks.Delete(c.cookie))
			must(t, c.Close())
			r.awaitOpen(0)
			await.Quiet(t, func() string {
				if closed := r.cfg.Scheduler.Counts().Worked; closed <= accepted {
					return fmt.Sprintf("to close has taken no time: %s behind it, %s before", closed, accepted)
				}
				return ""
			})
		})
	}
}

// A workload whose connections take long to accept keeps no others waiting, and not who announces them.
func TestAcceptingKeepsNoOtherWorkloadWaiting(t *testing.T) {
	for _, tt := range []struct {
		name         string
		slowPathOnly bool
		// begin has what waits at the first workload accepted.
		begin func(*rig)
	}{
		{"reported by the poller", true, func(*rig) {}},
		{"announced", false, func(r *rig) { r.s.Announced() }},
		{"to make room", false, func(r *rig) {
			r.arrive(1)
			r.s.Arrived()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, setup{slowPathOnly: tt.slowPathOnly})
			first := workloadtest.New(t, 1)
			held := hold(r.cfg.Sockets.Conns, func(k maps.ConnKey) bool { return k.Netns == first.Netns })
			r.cfg.Sockets.Conns = held
			r.open()
			if r.s.accepting != nil {
				r.s.accepting.Stop()
			}
			must(t, r.s.Join(first))
			second := r.joined(2)
			its, _ := r.s.listenersOf(first)
			its[0].mu.Lock() // it is accepted when it has left
			r.within(first, func() {
				c := r.dialClosed()
				must(t, c.SetLinger(0))
				must(t, c.Close())
			})
			its[0].mu.Unlock()
			tt.begin(r)
			await.Next(t, held.asked, "a connection that is being accepted")
			answer := sync.OnceFunc(func() { close(held.answer) })
			t.Cleanup(answer) // before the set closes, also where the test fails
			r.within(second, func() { r.dial() })
			r.dial()
			await.Next(t, start(r.s.Announced), "end of the announcement")
			await.Quiet(t, func() string {
				if host, other := r.s.countOpen(0), r.s.countOpen(second.ID); host != 1 || other != 1 {
					return fmt.Sprintf("%d connections of the host and %d of another workload are accepted, want 1 of each", host, other)
				}
				return ""
			})
			answer()
		})
	}
}

// Each connection is closed by one goroutine, of which each tenant has one at most.
func TestEachClosingIsTakenOnce(t *testing.T) {
	const tenants, each, adders = 3, 200, 4
	w := newClosings()
	var mu sync.Mutex
	freed, taken := map[*Conn]int{}, map[*Conn]int{}
	takers := map[shares.Path]int{}
	var all sync.WaitGroup
	take := func(of shares.Path) {
		mu.Lock()
		takers[of]++
		if takers[of] > 1 {
			t.Errorf("two goroutines take those of %v", of)
		}
		mu.Unlock()
		for goesOn := true; goesOn; {
			mu.Lock() // the next goroutine may begin as soon as this one is to end
			c, _, held := w.next(of)
			goesOn = c != nil
			for _, c := range held {
				freed[c]++
			}
			if goesOn {
				taken[c]++
			} else {
				takers[of]--
			}
			mu.Unlock()
		}
	}
	for range adders {
		all.Go(func() {
			for i := range tenants * each {
				c := &Conn{tenant: shares.Path{uint64(i % tenants)}}
				if w.add(c) {
					all.Go(func() { take(c.tenant) })
				}
			}
		})
	}
	all.Wait()
	if n := len(taken); n != adders*tenants*each {
		t.Errorf("%d connections were taken, want %d", n, adders*tenants*each)
	}
	for c, n := range taken {
		if n != 1 || freed[c] != 1 {
			t.Fatalf("a connection was freed %d times and taken %d times, want 1", freed[c], n)
		}
	}
	if len(w.waiting) != 0 {
		t.Errorf("%d tenants are left", len(w.waiting))
	}
}

// closingTable holds up the end of one client's entry, each time anew. Of another one's it tells how often tickets had waited when it was first found, and when it
// was deleted.
type closingTable struct {
	bpfmap.Table[uint64, maps.SlowConn]
	scheduler     *shares.Scheduler
	held, watched atomic.Uint64
	asked, answer chan struct{}
	over          chan struct{}
	found, gone   chan uint64
}

func newClosingTable(r *rig) *closingTable {
	t := &closingTable{
		Table: r.cfg.Sockets.SlowConns, scheduler: r.cfg.Scheduler,
		asked: make(chan struct{}), answer: make(chan struct{}), over: make(chan struct{}), found: make(chan uint64, 1), gone: make(chan uint64, 1),
	}
	r.cfg.Sockets.SlowConns = t
	return t
}

func (c *closingTable) Lookup(cookie uint64) (maps.SlowConn, bool, error) {
	if cookie == c.watched.Load() {
		select {
		case c.found <- c.scheduler.Counts().Waited:
		default: // not the first time
		}
	}
	return c.Table.Lookup(cookie)
}

func (c *closingTable) Delete(cookie uint64) error {
	switch cookie {
	case c.held.Load():
		select {
		case c.asked <- struct{}{}:
			select {
			case <-c.answer:
			case <-c.over:
			}
		case <-c.over:
		}
	case c.watched.Load():
		c.gone <- c.scheduler.Counts().Waited
	}
	return c.Table.Delete(cookie)
}

// The lease of a client that has gone keeps an i-sock, and counts against its cluster's limits, which are others' too. Its connection keeps a descriptor.
func TestWhatClosingsHoldDoesNotWaitForTheirTenant(t *testing.T) {
	for _, tt := range []struct {
		name   string
		behind int
		waits  uint64
	}{
		{"a few are to be closed", 0, 1},
		{"many are to be closed", manyClosings, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t, setup{})
			r.cfg.Scheduler = newScheduler()
			table := newClosingTable(r)
			r.open()
			t.Cleanup(func() { close(table.over) }) // before the set closes, also where the test fails
			first, second, last := r.dial(), r.dial(), r.dial()
			r.awaitOpen(3)
			// Each one's tenant has had its time when another ticket has begun.
			other := r.cfg.Scheduler.Ticket(shares.Path{1})
			defer other.Yield()

			table.held.Store(first.cookie)
			r.leave(first)
			await.Next(t, table.asked, "the end of the first one")
			other.Begin()
			r.leave(second)
			r.awaitClosings(1)
			table.watched.Store(last.cookie)
			r.leave(last)
			r.awaitClosings(2)
			table.held.Store(second.cookie)
			before := r.cfg.Scheduler.Counts().Waited
			table.answer <- struct{}{}
			if n := await.Next(t, table.found, "the end of the last one's lease") - before; n != 0 {
				t.Errorf("the end of a lease has waited %d times", n)
			}

			await.Next(t, table.asked, "the end of the second one")
			other.Begin()
			for range tt.behind {
				r.s.closeSoon(&Conn{set: r.s, tenant: testTenant, closed: true})
			}
			before = r.cfg.Scheduler.Counts().Waited
			table.answer <- struct{}{}
			if n := await.Next(t, table.gone, "the end of the last one") - before; n != tt.waits {
				t.Errorf("the end of a connection has waited %d times, want %d", n, tt.waits)
			}
		})
	}
}

// count is how many of a tenant's wait.
func (w *closings) count(of shares.Path) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.waiting[of]
	if !ok {
		return 0
	}
	return len(l.conns)
}

// awaitClosings waits until so many connections of clients are to be closed.
func (r *rig) awaitClosings(want int) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if n := r.s.closings.count(testTenant); n != want {
			return fmt.Sprintf("%d connections wait to be closed, want %d", n, want)
		}
		return ""
	})
}

// leave has a client reset its connection.
func (r *rig) leave(c *client) {
	r.t.Helper()
	must(r.t, r.psocks.Delete(c.cookie))
	must(r.t, c.SetLinger(0))
	must(r.t, c.Close())
}
