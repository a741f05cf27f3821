// SPDX-License-Identifier: Apache-2.0

package guardctl

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/guard"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// newAlone is one over memory that no program shares.
func newAlone(acts bool) *Controller {
	shared := maps.NewHeapShared(maps.Sizes{Slots: 1, Endpoints: 4})
	return New(Config{Shared: shared, Logger: slog.New(slog.DiscardHandler), Acts: acts})
}

var (
	bad  = netip.MustParseAddrPort("10.0.0.1:80")
	good = netip.MustParseAddrPort("10.0.0.2:80")
)

// leaves has an endpoint leave the fast path.
func (c *Controller) leaves(t *testing.T, now time.Time, endpoint netip.AddrPort) {
	t.Helper()
	c.policy.Event(now, guard.Event{What: maps.GuardSequence, Endpoint: endpoint, Client: 1, Tenant: "/a"})
	c.policy.Event(now, guard.Event{What: maps.GuardSequence, Endpoint: endpoint, Client: 2, Tenant: "/b"})
	if !c.off()[endpoint] {
		t.Fatalf("endpoint %s is on the fast path", endpoint)
	}
}

func TestEveryIndexOfAnEndpointIsMarked(t *testing.T) {
	c := newAlone(true)
	all := []reconcile.EndpointEntry{{Index: 0, Address: bad, Cluster: model.SharedCluster("a")}, {Index: 1, Address: good}, {Index: 3, Address: bad, Cluster: model.SharedCluster("b")}}
	endpoints := c.cfg.Shared.Endpoints
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
	c.Apply(all)
	mustBeMarked(false, false, false, false)
	now := time.Now()
	c.leaves(t, now, bad)
	// A configuration that comes meanwhile.
	c.Apply(all[:2])
	mustBeMarked(true, false, false, false)
	c.Apply(all)
	mustBeMarked(true, false, false, true)
	if due := c.policy.Due(now.Add(time.Hour)); len(due) != 1 {
		t.Fatalf("due: %v", due)
	}
	c.mark(all)
	mustBeMarked(false, false, false, false)
}

func TestNothingIsMarkedUnlessTheDaemonMay(t *testing.T) {
	c := newAlone(false)
	c.leaves(t, time.Now(), bad)
	c.Apply([]reconcile.EndpointEntry{{Index: 0, Address: bad}})
	c.act(time.Now(), []guard.Decision{{Scope: guard.Machine}})
	if endpoint, machine := c.cfg.Shared.Endpoints[0].Flags, c.cfg.Shared.Control.Guarded; endpoint != 0 || machine != 0 {
		t.Errorf("flags of the endpoint %d, of the machine %d", endpoint, machine)
	}
	if off := c.Off(); len(off) != 0 {
		t.Errorf("off the fast path: got %v, want none", off)
	}
}

func TestMachineLeavesByTheWordThatProgramsRead(t *testing.T) {
	c := newAlone(true)
	c.act(time.Now(), []guard.Decision{{Scope: guard.Machine, Why: "because"}})
	if atomic.LoadUint32(&c.cfg.Shared.Control.Guarded) != 1 {
		t.Error("requests begin on the fast path")
	}
}

func TestCountsAreReadAfterEventsAlone(t *testing.T) {
	c := newAlone(false)
	at := &c.cfg.Shared.Control.GuardNs[maps.GuardCut]
	now := maps.Now()
	c.looked.Store(now)
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
		if got := c.due(); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.name, got, tt.want)
		}
	}
	atomic.StoreUint64(at, 0)
	c.behind.Store(true)
	if !c.due() {
		t.Error("counts without an event are not looked for again")
	}
	c.behind.Store(false)
	c.next.Store(maps.Now())
	if !c.due() {
		t.Error("an endpoint that is to return does not")
	}
}

func TestLogSaysHowManyLinesItLeftOut(t *testing.T) {
	s := guardLog{pace: time.Second}
	now := time.Now()
	for i, want := range []struct {
		after      time.Duration
		what       string
		suppressed uint64
		ok         bool
	}{
		{0, "cut", 0, true}, {0, "cut", 0, false}, {0, "urgent", 0, true}, {time.Second - 1, "cut", 0, false}, {1, "cut", 2, true}, {time.Minute, "cut", 0, true},
	} {
		now = now.Add(want.after)
		if suppressed, ok := s.allows(now, want.what); suppressed != want.suppressed || ok != want.ok {
			t.Errorf("step %d: got %d, %v, want %d, %v", i, suppressed, ok, want.suppressed, want.ok)
		}
	}
}
