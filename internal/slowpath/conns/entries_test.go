// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

// shared is a table that workloads other than the host share.
func shared(size int) *quota.Table[workload.ID] {
	t := quota.New[workload.ID](size, 1)
	t.SetShared(true)
	return t
}

func countClosed(conns []*idleConn) (n int) {
	for _, c := range conns {
		if c.closed {
			n++
		}
	}
	return n
}

func TestAWorkloadKeepsAsManyIdleConnectionsAsAreLeftFree(t *testing.T) {
	table := shared(12)
	p := newPool(t, Config{PerEndpoint: 100, Idle: table})
	var greedy []*idleConn
	for range 20 {
		for i := range byte(3) {
			greedy = append(greedy, park(p, 1, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, i}), 80)))
		}
	}
	if n := countClosed(greedy[:54]); n != 54 || countClosed(greedy) != 54 {
		t.Errorf("%d of the oldest are closed, and %d in all; want the 6 that were used last to stay", n, countClosed(greedy))
	}
	modest := []*idleConn{park(p, 2, server), park(p, 2, server), park(p, 2, server)}
	if countClosed(modest) > 0 {
		t.Error("another workload's connections have crowded one out")
	}
	want := map[workload.ID]quota.Use{1: {Taken: 6, Refused: 54}, 2: {Taken: 3}}
	if got := table.Usage().By; got[1] != want[1] || got[2] != want[2] {
		t.Errorf("usage: %v, want %v", got, want)
	}
}

func TestAConnectionOfAWorkloadThatHasNoOtherClosesWhereThereIsNoPlace(t *testing.T) {
	table := quota.New[workload.ID](2, 1)
	p := newPool(t, Config{Idle: table})
	park(p, workload.Host, server)
	park(p, workload.Host, server)
	if c := park(p, 1, server); !c.closed {
		t.Error("a connection is kept without an entry")
	}
	if n := table.Usage().Taken; n != 2 {
		t.Errorf("%d entries are taken, want the host's 2", n)
	}
}

// The host may have had all of the table when the first pod came, and be busy.
func TestAWorkloadThatUsesMoreThanItsPartGivesTheRestBack(t *testing.T) {
	table := quota.New[workload.ID](100, 1)
	table.SetSize(12)
	p := newPool(t, Config{PerEndpoint: 100, Idle: table})
	for range 20 {
		park(p, workload.Host, server)
	}
	table.SetShared(true)
	for range 40 {
		park(p, workload.Host, server)
	}
	for range 40 {
		park(p, 1, server)
		park(p, workload.Host, server)
	}
	if got := table.Usage().By; got[workload.Host].Taken > 5 || got[1].Taken < 4 {
		t.Errorf("usage of 12: %v, want a third for each", got)
	}
}

// Network namespaces of one pod have one part: the one that asks has a connection of the other close.
func TestWorkloadsOfOneAccountMakePlaceForEachOther(t *testing.T) {
	p := newPool(t, Config{PerEndpoint: 100, Idle: shared(8)})
	p.Join(1, 1)
	p.Join(2, 1)
	var first []*idleConn
	for range 4 {
		first = append(first, park(p, 1, server))
	}
	if c := park(p, 2, server); c.closed || countClosed(first) != 1 || !first[0].closed {
		t.Errorf("the connection of another workload of the account is closed %t, and %d of the first; want the oldest of these alone", c.closed, countClosed(first))
	}
}

func TestTheHostAloneKeepsAsManyIdleConnectionsAsThereIsRoomFor(t *testing.T) {
	p := newPool(t, Config{PerEndpoint: 100, Idle: quota.New[workload.ID](8, 1)})
	var all []*idleConn
	for range 9 {
		all = append(all, park(p, workload.Host, server))
	}
	if countClosed(all) != 1 || !all[0].closed {
		t.Errorf("%d of 9 are closed, want the oldest alone", countClosed(all))
	}
}

// life does at random what may happen to a pool.
type life struct {
	*rand.Rand
	pool  *Pool
	table *quota.Table[workload.ID]
	parts map[string]int
}

func (l *life) endpoint() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(l.IntN(4))}), 80)
}

func (l *life) workload() workload.ID { return workload.ID(l.IntN(4)) }

func (l *life) peer() peer {
	return peer{group: group{l.workload(), l.endpoint()}, sni: []string{"", "a", "b"}[l.IntN(3)]}
}

// step does one thing, and says which.
func (l *life) step() string {
	switch n := l.IntN(100); {
	case n < 60:
		l.pool.put(&Conn{Conn: &idleConn{}, peer: l.peer()})
		return "put"
	case n < 75:
		l.pool.take(l.peer())
		return "take"
	case n < 80:
		l.pool.Each(func(c *Conn) { c.Conn.(*idleConn).closed = l.IntN(3) == 0 })
		return "some end"
	case n < 84:
		l.pool.Sweep()
		return "Sweep"
	case n < 87:
		id := l.workload()
		if l.pool.Leave(id); id != workload.Host {
			l.table.Forget(id)
		}
		return "Leave"
	case n < 94:
		id := l.workload()
		l.pool.Join(id, id)
		return "Join"
	case n < 95:
		l.pool.Shed()
		return "Shed"
	case n < 97:
		l.pool.shedOf(l.workload())
		return "shedOf"
	case n < 98:
		l.pool.KeepOnly([]netip.AddrPort{l.endpoint(), l.endpoint(), l.endpoint(), l.endpoint()}, []netip.AddrPort{l.endpoint()})
		return "KeepOnly"
	default:
		l.table.SetShared(l.IntN(2) == 0)
		return "SetShared"
	}
}

// wrong says what the books have that is not so.
func (l *life) wrong() string {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	kept, ofAll := map[workload.ID][]*Conn{}, 0
	for at, conns := range l.pool.conns {
		if len(conns) > l.pool.config.PerEndpoint {
			return fmt.Sprintf("%d connections of %v", len(conns), at)
		}
		kept[at.workload] = append(kept[at.workload], conns...)
		ofAll += len(conns)
	}
	usage := l.table.Usage()
	if usage.Taken != ofAll || ofAll > usage.Size {
		return fmt.Sprintf("%d entries of %d are taken, and %d connections idle", usage.Taken, usage.Size, ofAll)
	}
	for id := range workload.ID(4) {
		var ordered []*Conn
		if used := l.pool.used[id]; used != nil {
			for e := used.Front(); e != nil; e = e.Next() {
				ordered = append(ordered, e.Value.(*Conn))
			}
		}
		if len(ordered) != len(kept[id]) || usage.By[id].Taken != len(ordered) {
			return fmt.Sprintf("workload %d has %d connections, %d in their order, and %d entries", id, len(kept[id]), len(ordered), usage.By[id].Taken)
		}
		if !slices.IsSortedFunc(ordered, func(a, b *Conn) int { return a.IdleSince.Compare(b.IdleSince) }) {
			return fmt.Sprintf("connections of workload %d are not in the order of their use", id)
		}
	}
	return ""
}

func TestThereAreAsManyEntriesAsIdleConnectionsWhateverHappens(t *testing.T) {
	for seed := range uint64(20) {
		l := &life{Rand: rand.New(rand.NewPCG(seed, 0)), table: shared(16), parts: map[string]int{}}
		l.pool = New(Config{PerEndpoint: 4, Keep: time.Hour, Briefly: time.Second, Idle: l.table})
		for i := range 2000 {
			what := l.step()
			l.parts[what]++
			if wrong := l.wrong(); wrong != "" {
				t.Fatalf("seed %d, step %d, behind %s: %s", seed, i, what, wrong)
			}
		}
		if len(l.parts) != 10 || l.table.Usage().Refused == 0 {
			t.Errorf("seed %d: %v happened, and %d were refused: not everything that may", seed, l.parts, l.table.Usage().Refused)
		}
		l.pool.Close()
		if n := l.table.Usage().Taken; n != 0 {
			t.Errorf("seed %d: %d entries are taken when the pool is closed", seed, n)
		}
	}
}

// What a put costs does not grow with the number of connections, also where each has another one close.
func BenchmarkPutOverQuota(b *testing.B) {
	for _, kept := range []int{100, 10_000} {
		b.Run(fmt.Sprint(kept), func(b *testing.B) {
			p := New(Config{PerEndpoint: 256, Keep: time.Hour, Briefly: time.Second, Idle: quota.New[workload.ID](kept, 1)})
			defer p.Close()
			at := func(i int) peer {
				return peer{group: group{address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8 & 1), byte(i)}), 80)}}
			}
			for i := range kept {
				p.put(&Conn{Conn: &idleConn{}, peer: at(i)})
			}
			b.ResetTimer()
			for i := range b.N {
				p.put(&Conn{Conn: &idleConn{}, peer: at(i)})
			}
		})
	}
}
