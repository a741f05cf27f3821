// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/guard"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// wardenAlone is one over memory that no program shares.
func wardenAlone(o Options) *warden {
	shared := maps.NewHeapShared(maps.Sizes{Slots: 1, Endpoints: 4})
	return newWarden(&Node{o: o, datapath: &datapath.Datapath{Shared: shared}})
}

var (
	bad  = netip.MustParseAddrPort("10.0.0.1:80")
	good = netip.MustParseAddrPort("10.0.0.2:80")
)

// leaves has an endpoint leave the fast path.
func (w *warden) leaves(t *testing.T, now time.Time, endpoint netip.AddrPort) {
	t.Helper()
	w.policy.Event(now, guard.Event{What: maps.GuardSequence, Endpoint: endpoint, Client: 1, Tenant: "/a"})
	w.policy.Event(now, guard.Event{What: maps.GuardSequence, Endpoint: endpoint, Client: 2, Tenant: "/b"})
	if !w.off()[endpoint] {
		t.Fatalf("endpoint %s is on the fast path", endpoint)
	}
}

func TestEveryIndexOfAnEndpointIsMarked(t *testing.T) {
	w := wardenAlone(Options{FastPath: true, Auto: true})
	all := []reconcile.EndpointEntry{{Index: 0, Address: bad, Cluster: "a"}, {Index: 1, Address: good}, {Index: 3, Address: bad, Cluster: "b"}}
	endpoints := w.n.datapath.Shared.Endpoints
	endpoints[0].Flags = uint32(maps.EndpointDegraded)
	mustBeMarked := func(want ...bool) {
		t.Helper()
		for i, marked := range want {
			if got := endpoints[i].Flags&uint32(maps.EndpointGuarded) != 0; got != marked {
				t.Errorf("endpoint %d: off the fast path %v, want %v", i, got, marked)
			}
		}
		if endpoints[0].Flags&uint32(maps.EndpointDegraded) == 0 {
			t.Error("another flag is gone")
		}
	}
	w.follow(all)
	mustBeMarked(false, false, false, false)
	now := time.Now()
	w.leaves(t, now, bad)
	// A configuration that comes meanwhile.
	w.follow(all[:2])
	mustBeMarked(true, false, false, false)
	w.follow(all)
	mustBeMarked(true, false, false, true)
	if due := w.policy.Due(now.Add(time.Hour)); len(due) != 1 {
		t.Fatalf("due: %v", due)
	}
	w.mark(all)
	mustBeMarked(false, false, false, false)
}

func TestNothingIsMarkedUnlessTheDaemonMay(t *testing.T) {
	for _, o := range []Options{{FastPath: true}, {Auto: true}, {}} {
		w := wardenAlone(o)
		w.leaves(t, time.Now(), bad)
		w.follow([]reconcile.EndpointEntry{{Index: 0, Address: bad}})
		w.act(time.Now(), []guard.Decision{{Scope: guard.Machine}})
		shared := w.n.datapath.Shared
		if shared.Endpoints[0].Flags != 0 || shared.Control.Guarded != 0 {
			t.Errorf("%+v: flags of the endpoint %d, of the machine %d", o, shared.Endpoints[0].Flags, shared.Control.Guarded)
		}
	}
}

func TestMachineLeavesByTheWordThatProgramsRead(t *testing.T) {
	w := wardenAlone(Options{FastPath: true, Auto: true})
	w.n.log = slog.New(slog.DiscardHandler)
	w.act(time.Now(), []guard.Decision{{Scope: guard.Machine, Why: "because"}})
	if atomic.LoadUint32(&w.n.datapath.Shared.Control.Guarded) != 1 {
		t.Error("requests begin on the fast path")
	}
}

func TestCountsAreReadAfterEventsAlone(t *testing.T) {
	w := wardenAlone(Options{FastPath: true})
	at := &w.n.datapath.Shared.Control.GuardNs[maps.GuardCut]
	now := maps.Now()
	w.looked.Store(now)
	for _, tt := range []struct {
		name  string
		event int64
		want  bool
	}{
		{"none ever", 0, false},
		{"long before the last look", now - int64(time.Second), false},
		{"just before it: more may have been counted since", now - int64(5*time.Millisecond), true},
		{"since", now + 1, true},
	} {
		atomic.StoreUint64(at, uint64(tt.event))
		if got := w.due(); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.name, got, tt.want)
		}
	}
	atomic.StoreUint64(at, 0)
	w.behind.Store(true)
	if !w.due() {
		t.Error("counts without an event are not looked for again")
	}
	w.behind.Store(false)
	w.next.Store(maps.Now())
	if !w.due() {
		t.Error("an endpoint that is to return does not")
	}
}

func TestSpeakerSaysHowOftenItWasSilent(t *testing.T) {
	s := speaker{pace: time.Second}
	now := time.Now()
	for i, want := range []struct {
		after  time.Duration
		what   string
		unsaid uint64
		ok     bool
	}{
		{0, "cut", 0, true}, {0, "cut", 0, false}, {0, "urgent", 0, true}, {time.Second - 1, "cut", 0, false}, {1, "cut", 2, true}, {time.Minute, "cut", 0, true},
	} {
		now = now.Add(want.after)
		if unsaid, ok := s.may(now, want.what); unsaid != want.unsaid || ok != want.ok {
			t.Errorf("step %d: got %d, %v, want %d, %v", i, unsaid, ok, want.unsaid, want.ok)
		}
	}
}
