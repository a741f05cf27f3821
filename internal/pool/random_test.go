// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

var (
	lifeSeed  = flag.Uint64("life.seed", 0, "seed of the only random life of a pool; 0: those that -life.count or -life.time say")
	lifeCount = flag.Uint64("life.count", 100, "how many random lives of pools there are, with the seeds from 1 on")
	lifeTime  = flag.Duration("life.time", 0, "how long random lives with drawn seeds are begun, in place of those of -life.count")
	lifeActs  = flag.Int("life.acts", 60, "what happens to a pool in one of them")
)

// A pool's servers, clients and configuration do what they like. Its books are right all the while, and when all servers are well again, so is it.
func TestPoolRecoversFromWhateverHappens(t *testing.T) {
	t.Parallel()
	if *lifeSeed != 0 {
		live(t, *lifeSeed)
		return
	}
	const atATime = 8
	var begun atomic.Uint64
	end := time.Now().Add(*lifeTime)
	next := func() (seed uint64, more bool) {
		if *lifeTime > 0 {
			return rand.Uint64(), time.Now().Before(end)
		}
		seed = begun.Add(1)
		return seed, seed <= *lifeCount
	}
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for seed, more := next(); more && !t.Failed(); seed, more = next() {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { live(t, seed) })
			}
		})
	}
	all.Wait()
}

func live(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	for range *lifeActs {
		w.act()
		w.mustBeConsistent()
	}
	w.mustRecover()
	w.mustBeGivenUp()
}

// mood is what a server does with who connects to it.
type mood int32

const (
	well mood = iota
	// refusing: the connection is refused. short: this host has no descriptor for it. hanging: it comes to nothing until the mood changes.
	refusing
	short
	hanging
	// leaving: it closes each connection that it has accepted. speaking: it sends what nobody has asked for.
	leaving
	speaking
	moods
)

// host is a server of a world.
type host struct {
	*server
	mood atomic.Int32
}

func (h *host) feels(m mood) bool { return mood(h.mood.Load()) == m }

// world is a pool and all it has to do with. But for the moods of servers everything in it is guarded by the pool's lock, programs of the kernel too: they
// would end before a slot is freed.
type world struct {
	*rand.Rand
	t     *testing.T
	r     *rig
	hosts [3]*host
	// most are how many i-socks each cluster may have.
	most    map[string]uint32
	desired map[uint32]Endpoint
	// crowded: other workloads than the host join and leave. joined are those that have not left, lastJoined is the last one that has joined.
	crowded    bool
	joined     []workload.ID
	lastJoined workload.ID
	leases     []*lease
	// hidden are slots that the pool does not find among the free ones.
	hidden []uint32
	// late are events that have not been read yet.
	late  []func()
	trail []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 0)), t: t,
		most: map[string]uint32{"a": 0, "b": 0}, desired: map[uint32]Endpoint{},
	}
	for i := range w.hosts {
		w.hosts[i] = &host{server: newServer(t)}
	}
	slots := []uint32{6, 12, 32}[w.IntN(3)]
	if w.crowded = w.likely(60); w.crowded {
		// Enough for each of them, even while others have all that they want.
		slots = []uint32{24, 48}[w.IntN(2)]
	}
	o := setup{
		slots: slots, noHost: w.crowded && w.likely(20), initial: 1 + w.IntN(2), max: []int{0, 4}[w.IntN(2)], eager: []int{0, -1}[w.IntN(2)],
		streamIdle: time.Hour, shrinkAfter: 50 * time.Millisecond, local: w.IntN(2) == 0,
	}
	for cluster := range w.most {
		w.most[cluster] = []uint32{0, 1, 3}[w.IntN(3)]
	}
	w.r = newRig(t, o)
	t.Cleanup(w.end)
	w.note("seed %d: %+v, connections %v, other workloads %t", seed, o, w.most, w.crowded)
	w.locked(func() {
		w.r.p.cfg.Clients, w.r.p.cfg.Released = w, w.released
		w.r.p.cfg.Sockets.Peers = moody{w.r.p.cfg.Sockets.Peers, w}
	})
	w.r.p.SetShortest(1)
	return w
}

// end lets go of whoever waits, and tells what has happened if that was wrong.
func (w *world) end() {
	w.heal()
	w.locked(func() {
		for _, l := range w.leases {
			l.letGo()
		}
	})
	if w.t.Failed() {
		w.t.Logf("to repeat: -life.seed and -life.acts=%d\n%s", *lifeActs, strings.Join(w.trail, "\n"))
	}
}

func (w *world) note(format string, a ...any) { w.trail = append(w.trail, fmt.Sprintf(format, a...)) }

func (w *world) locked(do func()) {
	w.r.p.mu.Lock()
	defer w.r.p.mu.Unlock()
	do()
}

// likely is true so many times of a hundred.
func (w *world) likely(percent int) bool { return w.IntN(100) < percent }

// moody is the table of peers: who is written there is about to be connected to.
type moody struct {
	bpfmap.Table[maps.PeerKey, uint32]
	w *world
}

func (m moody) Put(k maps.PeerKey, slot uint32) error {
	h := m.w.hosts[atomic.LoadUint32(&m.w.r.shared.Slots[slot].Endpoint)]
	for h.feels(hanging) {
		time.Sleep(time.Millisecond)
	}
	switch mood(h.mood.Load()) {
	case refusing:
		return mapstest.ErrFault
	case short:
		return unix.EMFILE
	}
	return m.Table.Put(k, slot)
}

// released is called with the pool locked.
func (w *world) released(index uint32) {
	for slot := range w.r.shared.Slots {
		if state := w.r.shared.State(uint32(slot)); state != maps.SlotFree && w.r.shared.Slots[slot].Endpoint == index {
			w.t.Errorf("endpoint %d is released while its slot %d is in state %d", index, slot, state)
		}
	}
}

func (w *world) mustBeConsistent() {
	w.t.Helper()
	var wrong string
	w.locked(func() { wrong = w.r.inconsistentLocked(w.hidden) })
	if wrong != "" {
		w.t.Fatal(wrong)
	}
}

func (w *world) heal() {
	for _, h := range w.hosts {
		h.mood.Store(int32(well))
	}
}

// mustRecover makes all servers well, and demands the same of the pool.
func (w *world) mustRecover() {
	w.note("all are well")
	w.heal()
	w.locked(func() {
		w.r.p.free, w.hidden = append(w.r.p.free, w.hidden...), nil
		for _, l := range w.leases {
			l.letGo()
		}
	})
	w.deliver()
	w.awaitWell("requests that have not ended", w.endLeases)
	w.mustHaveNotifiedOnce()
	w.mustServe(workload.Host)
	for _, id := range w.joined {
		w.mustServe(id)
	}
}

// mustServe demands that each endpoint has i-socks for a workload that asks for them.
func (w *world) mustServe(id workload.ID) {
	if id == workload.Host && w.r.p.cfg.NoHost {
		return
	}
	for index, e := range w.desired {
		w.awaitWell("an endpoint that is well", func() string {
			w.r.p.Again(index)
			if w.r.down(index) {
				return fmt.Sprintf("endpoint %d is out of service", index)
			}
			return ""
		})
		w.awaitWell("a request", func() string {
			l := w.request(id, index, 100)
			if l == nil {
				return fmt.Sprintf("endpoint %d (%+v) has no i-sock for it, which is workload %d's", index, e, id)
			}
			w.locked(func() { w.finishLocked(l) })
			return ""
		})
	}
}

// awaitWell waits for what a pool does in no time but for its sweeps, which come after a quarter of a second at the latest, and for shrinking.
func (w *world) awaitWell(what string, check func() string) {
	w.t.Helper()
	await.Quiet(w.t, func() string {
		w.mustBeConsistent()
		if wrong := check(); wrong != "" {
			return what + ": " + wrong + w.books()
		}
		return ""
	})
}

// books is what the pool knows.
func (w *world) books() (text string) {
	w.locked(func() {
		w.r.eachLocked(func(sub *subpool) string {
			text += fmt.Sprintf("\nworkload %d, endpoint %d: open %d, dialing %d, dead %d, target %d, backoff %s, retry %t, gone %t, draining %t; flags %d",
				sub.from.ID, sub.Index, sub.open, sub.dialing, sub.dead, sub.target, sub.backoff, sub.retry != nil, sub.gone(), sub.Draining,
				w.r.shared.Endpoints[sub.Index].Flags)
			if shared := w.r.p.sharedLocked(sub); shared != nil {
				text += fmt.Sprintf("; pool %d: %+v", sub.pool, *shared)
			}
			return ""
		})
		for slot, s := range w.r.p.isocks {
			text += fmt.Sprintf("\nslot %d of workload %d, endpoint %d: state %d, busy %t, lent %t",
				slot, s.sub.from.ID, s.sub.Index, w.r.shared.State(slot), s.busy != nil, s.lent != nil)
		}
		text += fmt.Sprintf("\nfree %v, closed %v", w.r.p.free, w.r.p.zombies)
	})
	return text
}

// mustBeGivenUp takes all endpoints away, and all workloads, some of them before.
func (w *world) mustBeGivenUp() {
	w.note("all go")
	for len(w.joined) > 0 {
		id := w.joined[0]
		w.leave(id)
		if w.likely(50) {
			w.awaitWell("a workload that has gone", func() string {
				if !w.r.empty(id) {
					return fmt.Sprintf("workload %d has i-socks", id)
				}
				return ""
			})
		}
	}
	w.r.p.SetEndpoints(nil)
	w.awaitWell("endpoints that have gone", func() (wrong string) {
		w.locked(func() {
			p := w.r.p
			others := len(p.origins)
			if !p.cfg.NoHost {
				others--
			}
			n := len(p.destinations) + others + len(p.isocks) + len(p.zombies) + size(w.r.peers) + size(w.r.cookies) + size(w.r.pools)
			if n != 0 || len(p.free) != len(w.r.shared.Slots) || len(p.pools) != len(w.r.shared.Pools) {
				wrong = fmt.Sprintf("left: endpoints %d, workloads %d, i-socks %d, closed slots %d, peers %d, cookies %d, pools %d; free slots: %d, pools: %d",
					len(p.destinations), others, len(p.isocks), len(p.zombies), size(w.r.peers), size(w.r.cookies), size(w.r.pools), len(p.free), len(p.pools))
			}
		})
		return wrong
	})
}

// act does one thing.
func (w *world) act() {
	n := w.IntN(total)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			w.note("%s", a.do(w))
			return
		}
	}
}

type act struct {
	weight int
	do     func(*world) (what string)
}

var acts = []act{
	{14, (*world).ask}, {10, (*world).finish}, {4, (*world).abandon}, {4, (*world).breakOne}, {5, (*world).outstay}, {6, (*world).spill}, {4, (*world).lend},
	{3, (*world).completeRequest}, {12, (*world).changeMood}, {9, (*world).hangUp}, {3, (*world).speak}, {9, (*world).configure}, {4, (*world).hide},
	{8, (*world).age}, {5, (*world).endWindows}, {3, (*world).again}, {4, (*world).deliver}, {8, (*world).pause}, {2, (*world).babble},
	{6, (*world).comeOrGo},
}

var total = func() (n int) {
	for _, a := range acts {
		n += a.weight
	}
	return n
}()

func (w *world) changeMood() string {
	i, m := w.IntN(len(w.hosts)), mood(0)
	if w.likely(60) {
		m = mood(w.IntN(int(moods)))
	}
	w.hosts[i].mood.Store(int32(m))
	return fmt.Sprintf("server %d changes its mood to %d", i, m)
}

// conns are the connections to a host that the pool has open; others are closed.
func (w *world) conns(h *host) (open []net.Conn) {
	for _, c := range h.conns() {
		if _, known := w.r.isockAt(c); known {
			open = append(open, c)
		}
	}
	return open
}

// hangUp closes one connection of a server, or all.
func (w *world) hangUp() string {
	i := w.IntN(len(w.hosts))
	open := w.conns(w.hosts[i])
	all, reset := w.likely(30), w.likely(50)
	w.Shuffle(len(open), func(a, b int) { open[a], open[b] = open[b], open[a] })
	if !all {
		open = open[:min(len(open), 1)]
	}
	for _, c := range open {
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		// It may be closed already.
		_ = c.Close()
	}
	return fmt.Sprintf("server %d closes %d connections, by a reset %t", i, len(open), reset)
}

func (w *world) speak() string {
	i := w.IntN(len(w.hosts))
	open := w.conns(w.hosts[i])
	if len(open) == 0 {
		return "nobody listens"
	}
	// It may be closed.
	_, _ = open[w.IntN(len(open))].Write([]byte("x"))
	return fmt.Sprintf("server %d speaks", i)
}

// endpoint is one as it may be configured.
func (w *world) endpoint(index uint32) Endpoint {
	e := w.hosts[index].endpoint(index)
	e.Cluster = model.SharedCluster([]string{"a", "a", "b"}[index])
	e.MaxConnections = w.most[e.Cluster.Name]
	e.Draining = w.likely(25)
	if w.likely(20) {
		e.Limits = Limits{Idle: time.Duration(w.IntN(2)) * 30 * time.Millisecond, Age: time.Duration(w.IntN(2)) * 60 * time.Millisecond, Requests: w.Uint32N(3)}
	}
	return e
}

// configure changes endpoints, some or all.
func (w *world) configure() string {
	var list []Endpoint
	var removed []uint32
	next := map[uint32]Endpoint{}
	whole := w.likely(40)
	for index := range uint32(len(w.hosts)) {
		before, isWanted := w.desired[index]
		switch {
		case whole && w.likely(60), !whole && w.likely(30):
			next[index] = w.endpoint(index)
			list = append(list, next[index])
			w.expect(index)
		case !whole && w.likely(20):
			removed = append(removed, index)
		case !whole && isWanted:
			next[index] = before
		}
	}
	w.desired = next
	if whole {
		w.r.p.SetEndpoints(list)
		return fmt.Sprintf("the endpoints are %+v", list)
	}
	w.r.p.Change(list, removed)
	return fmt.Sprintf("the endpoints change: %+v, removed %v", list, removed)
}

// expect readies the number of an endpoint that the pool does not know: programs may have found it already.
func (w *world) expect(index uint32) {
	if w.r.p.Knows(index) {
		return
	}
	e := &w.r.shared.Endpoints[index]
	for _, word := range []*uint32{&e.Outstanding, &e.Flags} {
		atomic.StoreUint32(word, 0)
	}
	if w.likely(30) {
		w.request(w.anyWorkload(), index, 90)
	}
}

// hide takes free slots from the pool, or gives all back.
func (w *world) hide() string {
	what := ""
	w.locked(func() {
		if len(w.hidden) > 0 {
			w.r.p.free, w.hidden, what = append(w.r.p.free, w.hidden...), nil, "slots are free again"
			return
		}
		n := len(w.r.p.free)
		if w.likely(50) {
			n = w.IntN(n + 1)
		}
		w.hidden = append(w.hidden, w.r.p.free[len(w.r.p.free)-n:]...)
		w.r.p.free, what = w.r.p.free[:len(w.r.p.free)-n], fmt.Sprintf("%d slots are not free any more", n)
	})
	return what
}

// age makes i-socks older.
func (w *world) age() string {
	by := []time.Duration{atOnce, soon, 2 * soon}[w.IntN(3)]
	w.locked(func() {
		for _, s := range w.r.p.isocks {
			if s.opened.After(time.Now().Add(-by)) {
				s.opened = time.Now().Add(-by)
			}
		}
	})
	return fmt.Sprintf("i-socks are %s old", by)
}

func (w *world) endWindows() string {
	w.locked(func() {
		w.r.eachLocked(func(sub *subpool) string {
			sub.demand.until = min(sub.demand.until, 1)
			return ""
		})
	})
	w.r.p.beats.Soon(time.Millisecond)
	return "the time that is looked at has ended"
}

func (w *world) again() string {
	index := w.Uint32N(uint32(len(w.hosts)))
	w.r.p.Again(index)
	return fmt.Sprintf("endpoint %d is tried again", index)
}

func (w *world) pause() string {
	d := time.Duration(w.Int64N(int64(40 * time.Millisecond)))
	time.Sleep(d)
	return fmt.Sprintf("nothing happens for %s", d)
}

// babble tells the pool what is not so.
func (w *world) babble() string {
	slot := w.Uint32N(uint32(len(w.r.shared.Slots)))
	w.r.p.Broken(slot)
	w.r.p.Spilled(slot)
	w.r.p.Grow(workload.ID(w.Uint32N(uint32(w.lastJoined)+2)), w.Uint32N(uint32(len(w.hosts))), w.Uint64N(3))
	w.stray()
	return fmt.Sprintf("events of slot %d that mean nothing", slot)
}

// stray is a program that has found a pool when that was another's: it counts there, and breaks the slot that it finds, for that is not its own.
func (w *world) stray() {
	broken := maps.NoSlot
	w.locked(func() {
		pool := w.Uint32N(uint32(len(w.r.shared.Pools)))
		p := &w.r.shared.Pools[pool]
		atomic.AddUint32(&p.Missed, w.Uint32N(2))
		atomic.StoreUint32(&p.Want, w.Uint32N(2))
		slot := w.r.shared.Pop(pool)
		if slot != maps.NoSlot && w.r.shared.CompareAndSwapState(slot, maps.SlotReady, maps.SlotBroken) {
			broken = slot
		}
	})
	if broken != maps.NoSlot {
		w.event(70, func() { w.r.p.Broken(broken) })
	}
}

// anyWorkload is the host or another one, also one that has left, or has never joined.
func (w *world) anyWorkload() workload.ID {
	switch {
	case w.likely(40) || len(w.joined) == 0 && w.likely(90):
		return workload.Host
	case w.likely(95) && len(w.joined) > 0:
		return w.joined[w.IntN(len(w.joined))]
	}
	return workload.ID(w.Uint32N(uint32(w.lastJoined) + 2))
}

// comeOrGo has a workload join, or leave.
func (w *world) comeOrGo() string {
	const atOnce = 2
	switch {
	case !w.crowded:
		return "the host is alone"
	case len(w.joined) < atOnce && w.likely(60):
		w.lastJoined++
		w.joined = append(w.joined, w.lastJoined)
		// Two have one account, now and then.
		w.r.joinIn(w.lastJoined, w.lastJoined&^1|1)
		return fmt.Sprintf("workload %d joins", w.lastJoined)
	case len(w.joined) > 0:
		id := w.joined[w.IntN(len(w.joined))]
		w.leave(id)
		return fmt.Sprintf("workload %d leaves", id)
	}
	return "no workload leaves"
}

func (w *world) leave(id workload.ID) {
	w.joined = slices.DeleteFunc(w.joined, func(one workload.ID) bool { return one == id })
	w.r.p.Leave(id)
}
