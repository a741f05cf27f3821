// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/suite"
)

const patience = 300 * time.Millisecond

var start = time.Unix(1000, 0)

func viewNumber(i int) model.View {
	if i == 0 {
		return model.View{}
	}
	return model.View{Number: uint32(i), Name: fmt.Sprintf("v%d", i)}
}

// world is what some views say, and what is in force.
type world struct {
	t     *testing.T
	m     *Merger
	now   time.Time
	parts []*model.Config
	got   *Merged
}

func newWorld(t *testing.T, views int) *world {
	return &world{t: t, m: New(Times{Patience: patience}), now: start, parts: make([]*model.Config, views)}
}

// say has a view have these clusters, by name and port.
func (w *world) say(view int, clusters map[string]uint16) {
	part := &model.Config{}
	for _, name := range slices.Sorted(keysOf(clusters)) {
		part.Clusters = append(part.Clusters, cluster(viewNumber(view), name, clusters[name]))
	}
	part.Passed = []model.Passed{{View: viewNumber(view)}}
	w.parts[view] = part
}

func keysOf(m map[string]uint16) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func cluster(v model.View, name string, port uint16) *model.Cluster {
	return &model.Cluster{View: v, Name: name, Endpoints: []model.Endpoint{{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), port), Weight: 1}}}
}

// merge puts in force what the views say.
func (w *world) merge() {
	w.t.Helper()
	w.got = w.m.Merge(w.parts, w.now)
	w.m.Accept(w.got)
}

// port is that of the endpoint of a view's cluster; 0: the view has no such cluster.
func (w *world) port(view int, name string) uint16 {
	c := w.got.Config.In(viewNumber(view)).Cluster(name)
	if c == nil {
		return 0
	}
	return c.Endpoints[0].Address.Port()
}

func (w *world) key(view int, name string) model.ClusterKey {
	return w.got.Config.In(viewNumber(view)).Key(name)
}

// requirePorts compares what views have.
func (w *world) requirePorts(name string, want ...uint16) {
	w.t.Helper()
	for view := range want {
		if got := w.port(view, name); got != want[view] {
			w.t.Fatalf("view %d has %d, want %d", view, got, want[view])
		}
	}
}

func three(t *testing.T) *world {
	w := newWorld(t, 3)
	for v := range 3 {
		w.say(v, map[string]uint16{"a": 1})
	}
	w.merge()
	w.requirePorts("a", 1, 1, 1)
	if n := len(w.got.Config.Clusters); n != 1 || !w.got.Next.IsZero() {
		t.Fatalf("%d clusters of three equal ones, next %s", n, w.got.Next)
	}
	return w
}

func TestWhatAllViewsChangeIsChangedInPlace(t *testing.T) {
	w := three(t)
	key := w.key(2, "a")
	for v := range 3 {
		w.say(v, map[string]uint16{"a": 2})
		w.merge()
		w.now = w.now.Add(patience / 4)
		if v < 2 {
			w.requirePorts("a", 1, 1, 1)
		}
	}
	w.requirePorts("a", 2, 2, 2)
	if w.key(2, "a") != key || w.key(0, "a") != key || !w.got.Next.IsZero() {
		t.Errorf("keys %v and %v, want %v; next %s", w.key(0, "a"), w.key(2, "a"), key, w.got.Next)
	}
}

func TestAViewThatChangesAloneLeavesTheOthersTheirCluster(t *testing.T) {
	w := three(t)
	before := w.got.Config.In(viewNumber(1)).Cluster("a")
	w.say(0, map[string]uint16{"a": 2}) // whose name is in the key
	w.merge()
	w.requirePorts("a", 1, 1, 1)
	if want := start.Add(patience); w.got.Next != want {
		t.Fatalf("next %s, want %s", w.got.Next, want)
	}
	w.now = w.got.Next
	w.merge()
	w.requirePorts("a", 2, 1, 1)
	if w.key(1, "a") != before.Key() || w.key(2, "a") != before.Key() || w.key(0, "a") == before.Key() {
		t.Errorf("keys %v, %v, %v; it was %v", w.key(0, "a"), w.key(1, "a"), w.key(2, "a"), before.Key())
	}
	if c := w.got.Config.In(viewNumber(0)).Cluster("a").Common; c == nil || c.From != before.Key() {
		t.Errorf("the cluster does not say where it comes from: %+v", c)
	}
	left := w.got.Config.In(viewNumber(0)).Cluster("a")
	if w.merge(); w.got.Config.In(viewNumber(0)).Cluster("a") != left {
		t.Error("the cluster changes although no view has said anything")
	}
	w.say(0, map[string]uint16{"a": 3})
	w.merge()
	w.requirePorts("a", 3, 1, 1)
	if c := w.got.Config.In(viewNumber(0)).Cluster("a"); c.Key() != left.Key() || c.Common != nil && c.Common.From != (model.ClusterKey{}) {
		t.Errorf("what comes later begins with what is known in the other cluster: %v, %+v", c.Key(), c.Common)
	}

	w.say(0, map[string]uint16{"a": 1})
	w.merge()
	w.requirePorts("a", 1, 1, 1)
	if n := len(w.got.Config.Clusters); n != 1 || w.key(0, "a") != before.Key() {
		t.Errorf("%d clusters when all are equal again, key %v, want %v", n, w.key(0, "a"), before.Key())
	}
}

func TestAClusterThatAViewLeavesStaysTheOthers(t *testing.T) {
	w := three(t)
	key := w.key(1, "a")
	w.say(0, nil)
	w.merge()
	w.requirePorts("a", 0, 1, 1)
	w.parts[0] = nil
	w.merge()
	w.requirePorts("a", 0, 1, 1)
	if w.key(1, "a") != key || w.key(2, "a") != key {
		t.Errorf("keys %v and %v, want %v", w.key(1, "a"), w.key(2, "a"), key)
	}
	w.say(0, map[string]uint16{"a": 7})
	w.merge()
	w.requirePorts("a", 7, 1, 1)
}

func TestThoseThatAgreeTakeTheCluster(t *testing.T) {
	w := three(t)
	key := w.key(1, "a")
	w.say(0, map[string]uint16{"a": 2})
	w.say(1, map[string]uint16{"a": 3})
	w.say(2, map[string]uint16{"a": 3})
	w.merge()
	w.requirePorts("a", 1, 1, 1)
	w.now = w.got.Next
	w.merge()
	// The table of view 0 may lead to the cluster until it has been changed: it is as it was until then.
	w.requirePorts("a", 2, 1, 1)
	if w.got.Next != w.now {
		t.Errorf("next %s, want now", w.got.Next)
	}
	w.merge()
	w.requirePorts("a", 2, 3, 3)
	if w.key(1, "a") != key || w.key(2, "a") != key {
		t.Errorf("keys %v and %v, want %v", w.key(1, "a"), w.key(2, "a"), key)
	}
}

// A key never has another content in a merge in which some view that had it has not said that: its table leads there still.
func TestAClusterThatSomeViewGoesAwayFromStaysAsItIs(t *testing.T) {
	others := func(w *world, view int) {
		w.parts[view].Listeners = []*model.Listener{{Name: "web", View: viewNumber(view), Address: netip.MustParseAddrPort("10.0.0.9:80"), Routes: &model.RouteTable{}}}
	}
	tests := []struct {
		name string
		// change is of view 1, beside another content of view 2.
		change func(w *world)
		first  []uint16
	}{
		{"without the cluster", func(w *world) { w.say(1, nil) }, []uint16{0, 0, 1}},
		{"which has gone", func(w *world) { w.parts[1] = nil }, []uint16{0, 0, 1}},
		{"with other routes", func(w *world) { w.say(1, map[string]uint16{"a": 3}); others(w, 1) }, []uint16{0, 3, 1}},
		{"both with other routes", func(w *world) { w.say(1, map[string]uint16{"a": 3}); others(w, 1); others(w, 2) }, []uint16{0, 3, 2}},
		{"gone, the other with other routes", func(w *world) { w.parts[1] = nil; others(w, 2) }, []uint16{0, 0, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.say(0, map[string]uint16{})
			w.say(1, map[string]uint16{"a": 1})
			w.say(2, map[string]uint16{"a": 1})
			w.merge()
			key := w.key(2, "a")
			w.say(2, map[string]uint16{"a": 2})
			tt.change(w)
			w.merge()
			w.requirePorts("a", tt.first...)
			if c := w.got.Config.Cluster(key); c != nil && c.Endpoints[0].Address.Port() != 1 {
				t.Errorf("%v has %v while the table of view 1 leads there", key, c.Endpoints)
			}
			w.expire()
			w.requirePorts("a", tt.first[0], tt.first[1], 2)
		})
	}
}

// A view that goes and one that comes in the same merge may have the same name of a cluster, but not the same key.
func TestAKeyIsNotUsedAgainInTheMergeInWhichItGoes(t *testing.T) {
	w := newWorld(t, 3)
	w.say(1, map[string]uint16{"a": 1})
	w.say(2, map[string]uint16{"a": 1})
	w.merge()
	w.parts[1] = nil
	w.merge()
	key := w.key(2, "a")
	w.say(1, map[string]uint16{"a": 9})
	w.parts[2] = nil
	w.merge()
	w.requirePorts("a", 0, 9, 0)
	if got := w.key(1, "a"); got == key {
		t.Errorf("%v is view 1's at once, while the table of view 2 leads there", got)
	}
}

// A view that comes does not keep others waiting that agree on something else.
func TestAViewThatComesDoesNotHoldThoseThatAgree(t *testing.T) {
	w := newWorld(t, 4)
	for v := range 3 {
		w.say(v, map[string]uint16{"a": 1})
	}
	w.merge()
	for v := range 3 {
		w.say(v, map[string]uint16{"a": 2})
	}
	w.say(3, map[string]uint16{"a": 1})
	w.merge()
	w.requirePorts("a", 2, 2, 2, 1)
}

func TestWhatIsNotAcceptedChangesNothing(t *testing.T) {
	w := three(t)
	w.say(0, map[string]uint16{"a": 2})
	refused := w.m.Merge(w.parts, w.now)
	again := w.m.Merge(w.parts, w.now)
	if refused.Next != again.Next || len(again.Config.Clusters) != 1 {
		t.Errorf("next %s, then %s", refused.Next, again.Next)
	}
	w.say(0, map[string]uint16{"a": 1})
	w.merge()
	if !w.got.Next.IsZero() || len(w.got.Config.Clusters) != 1 {
		t.Errorf("next %s, %d clusters", w.got.Next, len(w.got.Config.Clusters))
	}
}

func TestAViewThatIsHeldWaitsOn(t *testing.T) {
	w := three(t)
	w.say(0, map[string]uint16{"a": 2})
	w.say(1, map[string]uint16{"a": 1, "b": 5})
	w.merge()
	w.now = w.got.Next.Add(time.Second)
	w.say(1, map[string]uint16{"a": 1, "b": 6})
	waiter := Waiter{"", w.parts[0].Clusters[0]}
	wanted := w.m.Merge(w.parts, w.now)
	if !slices.Equal(wanted.Waited, []Waiter{waiter}) || !slices.Equal(wanted.WaitedFor(wanted.Config.In(viewNumber(0)).Key("a")), []Waiter{waiter}) {
		t.Errorf("%v have waited", wanted.Waited)
	}
	hold := func() { w.got = w.m.Merge(w.parts, w.now, waiter); w.m.Accept(w.got) }
	hold()
	w.requirePorts("a", 1, 1, 1)
	w.requirePorts("b", 0, 6, 0)
	if len(w.got.Waited) > 0 || !w.got.Next.IsZero() || !w.got.Waits(waiter) {
		t.Errorf("waited %v, next %s, waits %t", w.got.Waited, w.got.Next, w.got.Waits(waiter))
	}
	// Nothing of the others is held with it.
	w.say(1, map[string]uint16{"a": 3, "b": 6})
	w.say(2, map[string]uint16{"a": 3})
	hold()
	w.requirePorts("a", 1, 1, 1)
	w.now = w.got.Next
	hold()
	w.requirePorts("a", 1, 3, 3)
	w.parts[2] = nil
	hold()
	w.requirePorts("a", 1, 3, 0)
	// What it says anew is not held.
	w.say(0, map[string]uint16{"a": 4})
	hold()
	if w.got.Waits(waiter) {
		t.Error("it waits for what it does not say any more")
	}
	w.expire()
	w.requirePorts("a", 4, 3, 0)
}

// What a view takes alone, as the last one that has a cluster, it may have waited for, and may say just now.
func TestWhatTheLastViewTakesItHasWaitedForOrNot(t *testing.T) {
	w := newWorld(t, 3)
	for v := range 3 {
		w.say(v, map[string]uint16{"a": uint16(1 + v/2)})
	}
	w.merge()
	w.say(0, map[string]uint16{"a": 3})
	w.merge()
	w.parts[1] = nil
	w.merge()
	w.now = w.got.Next
	w.merge()
	w.requirePorts("a", 3, 0, 2)
	if want := []Waiter{{"", w.parts[0].Clusters[0]}}; !slices.Equal(w.got.Waited, want) {
		t.Errorf("waited %v, want %v", w.got.Waited, want)
	}
	w.say(0, map[string]uint16{"a": 4})
	w.merge()
	w.requirePorts("a", 4, 0, 2)
	if len(w.got.Waited) > 0 {
		t.Errorf("waited %v, which it says just now", w.got.Waited)
	}
}

func TestWhatIsNotShared(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:1")
	for _, tt := range []struct {
		name   string
		change func(*model.Config)
	}{
		{"names", func(p *model.Config) { p.Clusters[0].Discovery = model.StrictDNS }},
		{"TLS", func(p *model.Config) { p.Clusters[0].Endpoints[0].TLS = &model.UpstreamTLS{Key: "k"} }},
		{"secrets to come", func(p *model.Config) { p.Clusters[0].Sockets = []*model.UpstreamTLS{{Key: "k"}} }},
		{"a listener's address", func(p *model.Config) {
			p.Listeners = []*model.Listener{{View: p.Clusters[0].View, Name: "l", Address: at, Routes: &model.RouteTable{}}}
		}},
		{"the port of a listener at all addresses", func(p *model.Config) {
			l := &model.Listener{View: p.Clusters[0].View, Name: "l", Bound: true, Address: netip.MustParseAddrPort("0.0.0.0:1"), Routes: &model.RouteTable{}}
			p.Listeners = []*model.Listener{l}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3)
			for v := range 3 {
				w.say(v, map[string]uint16{"a": 1})
			}
			for v := range 2 {
				tt.change(w.parts[v])
			}
			w.merge()
			if n := len(w.got.Config.Clusters); n != 3 {
				t.Errorf("%d clusters, want 3", n)
			}
			// One that becomes so leaves at once.
			shared := three(t)
			shared.say(1, map[string]uint16{"a": 1})
			tt.change(shared.parts[1])
			shared.merge()
			if n := len(shared.got.Config.Clusters); n != 2 || !shared.got.Next.IsZero() {
				t.Errorf("%d clusters, want 2; next %s", n, shared.got.Next)
			}
		})
	}
}

func TestOneViewAloneIsAsItSays(t *testing.T) {
	w := newWorld(t, 3)
	w.say(0, map[string]uint16{"a": 1})
	w.merge()
	if w.got.Config != w.parts[0] {
		t.Error("the only part is another one")
	}
	key, in := w.key(0, "a"), w.got.Config.Clusters[0]
	w.say(1, map[string]uint16{"a": 2})
	w.merge()
	w.requirePorts("a", 1, 2, 0)
	if w.key(0, "a") != key || w.got.Config.Clusters[0] != in {
		t.Error("another view makes a new cluster of the first one's")
	}
}

// TestViewsHaveWhatTheySay has views change at random, alike and apart, and compares with what each says.
func TestViewsHaveWhatTheySay(t *testing.T) {
	seed := suite.Seed(t)
	forks, shared := 0, 0
	for round := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, round))
		w := newWorld(t, 2+random.IntN(5))
		w.m.Apart = time.Duration(round%2) * 4 * patience
		said := make([]map[string]uint16, len(w.parts))
		history := make([]map[string][]uint16, len(w.parts))
		for v := range w.parts {
			said[v], history[v] = map[string]uint16{}, map[string][]uint16{}
		}
		for range 60 {
			name, port := string(rune('a'+random.IntN(4))), uint16(random.IntN(4))
			for v := range w.parts {
				if random.IntN(2) == 0 {
					continue // this view hears of it later, or never
				}
				if port == 0 {
					delete(said[v], name)
					history[v][name] = nil
				} else {
					said[v][name] = port
				}
				if random.IntN(6) == 0 {
					said[v] = map[string]uint16{}
					history[v] = map[string][]uint16{}
				}
				w.say(v, said[v])
				w.mergeAndCompare(said, history)
			}
			w.now = w.now.Add(time.Duration(random.IntN(3)) * patience / 4)
			w.mergeAndCompare(said, history)
			if random.IntN(4) == 0 {
				w.expire()
				w.mergeAndCompare(said, history)
				w.requireQuiet(said)
				for _, c := range w.got.Config.Clusters {
					if len(c.SeenIn()) > 1 {
						shared++
					}
					if c.Common != nil && c.Common.From != (model.ClusterKey{}) {
						forks++
					}
				}
			}
		}
		for v := range w.parts {
			w.parts[v] = nil
		}
		w.merge()
		if len(w.got.clusters) != 0 || len(w.got.waiting) != 0 || len(w.got.Config.Clusters) != 0 {
			t.Fatalf("round %d: something is left: %d names, %d waiting", round, len(w.got.clusters), len(w.got.waiting))
		}
	}
	if forks < 40 || shared < 400 {
		t.Errorf("%d clusters were forks, %d shared; want more", forks, shared)
	}
}

// expire lets the time pass until no view waits.
// What a view's routes may ask for is in force with them: a view waits with endpoints alone, and no longer once its listeners have changed.
func TestAViewWaitsForOthersWithEndpointsAlone(t *testing.T) {
	listener := func(routes string) []*model.Listener {
		return []*model.Listener{{Name: "web", View: viewNumber(1), Address: netip.MustParseAddrPort("10.0.0.9:80"), Routes: &model.RouteTable{Name: routes}}}
	}
	before := listener("before")
	tests := []struct {
		name string
		// change is what view 1 says next, which has got another endpoint; then has it say more in another merge.
		change, then func(part *model.Config)
		want         uint16
	}{
		{"endpoints", func(*model.Config) {}, nil, 8000},
		{"endpoints, and routes that are the same", func(p *model.Config) { p.Listeners = listener("before") }, nil, 8000},
		{"endpoints and routes", func(p *model.Config) { p.Listeners = listener("other") }, nil, 9000},
		{"endpoints and subsets", func(p *model.Config) { p.Clusters[0].Subsets = &model.Subsets{} }, nil, 9000},
		{"endpoints, and routes a moment later", func(*model.Config) {}, func(p *model.Config) { p.Listeners = listener("other") }, 9000},
		{"endpoints, and no listener", func(p *model.Config) { p.Listeners = nil }, nil, 9000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 3)
			for view := range w.parts {
				w.say(view, map[string]uint16{"a": 8000})
			}
			w.parts[1].Listeners = before
			w.merge()
			say := func(change func(*model.Config)) {
				w.say(1, map[string]uint16{"a": 9000})
				w.parts[1].Listeners = before
				change(w.parts[1])
				w.merge()
			}
			say(tt.change)
			if tt.then != nil {
				w.requirePorts("a", 8000, 8000, 8000)
				say(tt.then)
			}
			w.requirePorts("a", 8000, tt.want, 8000)
			if len(w.got.Waited) > 0 {
				t.Error("what a view says itself would be put in force without its cluster")
			}
			if waits := !w.got.Next.IsZero(); waits != (tt.want == 8000) {
				t.Errorf("a view waits: %v", waits)
			}
		})
	}
}

// What a view has to have at once is not held back where others wait on.
func TestWhatAViewMustHaveIsNotHeld(t *testing.T) {
	w := newWorld(t, 3)
	for view := range w.parts {
		w.say(view, map[string]uint16{"a": 8000})
	}
	w.merge()
	w.say(1, map[string]uint16{"a": 9000})
	w.merge()
	w.now = w.now.Add(patience)
	w.say(2, map[string]uint16{"a": 9001})
	w.parts[2].Listeners = []*model.Listener{{Name: "web", View: viewNumber(2), Address: netip.MustParseAddrPort("10.0.0.9:80"), Routes: &model.RouteTable{}}}
	w.got = w.m.Merge(w.parts, w.now, Waiter{"v1", w.parts[1].Clusters[0]})
	w.requirePorts("a", 8000, 8000, 9001)
}

// A view that had to leave a cluster has one of its own for a while, though it says what the others say: else one that hears of each change later than they wait for it
// would come and go at each, with cold pools. Where there is no room it goes back at once.
func TestAViewGoesBackAfterAWhile(t *testing.T) {
	const apart = 10 * time.Second
	w := newWorld(t, 3)
	w.m = New(Times{Patience: patience, Apart: apart})
	for view := range w.parts {
		w.say(view, map[string]uint16{"a": 8000})
	}
	w.merge()
	moves, own := 0, w.key(2, "a")
	begun := w.now
	for change := range uint16(60) {
		for view := range 2 {
			w.say(view, map[string]uint16{"a": 8001 + change})
		}
		w.merge()
		w.now = w.now.Add(2 * patience)
		w.merge()
		w.say(2, map[string]uint16{"a": 8001 + change})
		w.merge()
		if w.got.Next.IsZero() != (w.key(2, "a") == w.key(0, "a")) || w.got.Twins != !w.got.Next.IsZero() {
			t.Fatalf("next at %v, twins %v, keys %s and %s", w.got.Next, w.got.Twins, w.key(2, "a"), w.key(0, "a"))
		}
		w.now = w.now.Add(2 * patience)
		w.merge()
		if key := w.key(2, "a"); key != own {
			moves, own = moves+1, key
		}
	}
	// It leaves, and goes back.
	if most := 2 * int(1+w.now.Sub(begun)/apart); moves == 0 || moves > most {
		t.Errorf("the view that is late moved %d times, want at most %d", moves, most)
	}
	w.say(2, map[string]uint16{"a": 9000})
	w.merge()
	w.now = w.now.Add(patience)
	w.merge()
	w.say(2, map[string]uint16{"a": 8060})
	w.merge()
	if w.key(2, "a") == w.key(0, "a") || !w.got.Twins {
		t.Error("the view went back at once")
	}
	w.got = w.m.MergeShort(w.parts, w.now)
	if w.key(2, "a") != w.key(0, "a") || w.got.Twins {
		t.Error("the view does not go back though there is no room")
	}
}

// Where all say the same it is one change in place, which needs no room: one that has its chance has it for all that are held.
func TestViewsThatAgreeHaveTheirChanceTogether(t *testing.T) {
	w := newWorld(t, 3)
	for view := range w.parts {
		w.say(view, map[string]uint16{"a": 8000})
	}
	w.merge()
	var held []Waiter
	for view := range w.parts {
		w.say(view, map[string]uint16{"a": 9000})
		held = append(held, Waiter{viewNumber(view).Name, w.parts[view].Clusters[0]})
		w.got = w.m.Merge(w.parts, w.now, held...)
		w.m.Accept(w.got)
		w.now = w.now.Add(patience)
	}
	w.requirePorts("a", 8000, 8000, 8000)
	key := w.key(0, "a")
	w.got = w.m.Merge(w.parts, w.now, held[1:]...)
	w.requirePorts("a", 9000, 9000, 9000)
	if w.key(0, "a") != key || len(w.got.Config.Clusters) != 1 {
		t.Errorf("%d clusters, key %s, was %s", len(w.got.Config.Clusters), w.key(0, "a"), key)
	}
	if !slices.Equal(w.got.Waited, held[:1]) {
		t.Errorf("waited: %v, want the first alone: the others are held already", w.got.Waited)
	}
}

func (w *world) expire() {
	for !w.got.Next.IsZero() {
		w.now = w.got.Next
		w.merge()
	}
}

// mergeAndCompare sees that a view has what it says, or said while it waits; what stays is the same pointer, and keys are unique.
func (w *world) mergeAndCompare(said []map[string]uint16, history []map[string][]uint16) {
	w.t.Helper()
	before := map[model.ClusterKey]*model.Cluster{}
	if w.got != nil {
		for _, c := range w.got.Config.Clusters {
			before[c.Key()] = c
		}
	}
	w.merge()
	for v := range said {
		for _, name := range []string{"a", "b", "c", "d"} {
			want, got := said[v][name], w.port(v, name)
			if got != want && !slices.Contains(history[v][name], got) {
				w.t.Fatalf("view %d has %s %d, says %d, and said %v", v, name, got, want, history[v][name])
			}
			if got != want && w.got.Next.IsZero() {
				w.t.Fatalf("view %d has %s %d, says %d, and waits for nothing", v, name, got, want)
			}
			if want != 0 && !slices.Contains(history[v][name], want) {
				history[v][name] = append(history[v][name], want)
			}
		}
	}
	seen := map[model.ClusterKey]bool{}
	for _, c := range w.got.Config.Clusters {
		if seen[c.Key()] {
			w.t.Fatalf("%s stands there twice", c.Key())
		}
		seen[c.Key()] = true
		for _, v := range c.SeenIn() {
			if w.got.Config.In(model.View{Name: v}).Cluster(c.Name) != c {
				w.t.Fatalf("%s is not what view %q means", c.Key(), v)
			}
		}
		if old := before[c.Key()]; old != nil && old != c && same(old, c) && slices.Equal(old.SeenIn(), c.SeenIn()) && old.View == c.View && old.Common == c.Common && w.got.clusters != nil {
			w.t.Fatalf("%s is another one though nothing has changed", c.Key())
		}
	}
}

// requireQuiet sees that there is a cluster for each content.
func (w *world) requireQuiet(said []map[string]uint16) {
	w.t.Helper()
	distinct := map[string]bool{}
	for _, of := range said {
		for name, port := range of {
			distinct[fmt.Sprint(name, port)] = true
		}
	}
	if got := len(w.got.Config.Clusters); got != len(distinct) {
		w.t.Fatalf("%d clusters, want one for each of %d contents", got, len(distinct))
	}
}
