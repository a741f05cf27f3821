// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"maps"
	"sync/atomic"
	"testing"

	xlbmaps "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

var toWeb = usage.Destination{Workload: workload.Host, Cluster: "web"}

// leaseOfWeb is a lease of an i-sock to the only endpoint, which is one of the cluster web.
func leaseOfWeb(t *testing.T) (r *rig, s *server, slot uint32) {
	t.Helper()
	r, s = newRig(t, setup{}), newServer(t)
	e := s.endpoint(ours)
	e.Cluster = model.SharedCluster(toWeb.Cluster)
	r.set(e)
	r.awaitIdle(ours, 1)
	s.await(1) // which may be accepted later
	return r, s, r.lease(request{cookie: 7})
}

// freeSlot has the server close the i-sock, and returns when its slot is free. check is called before that.
func freeSlot(t *testing.T, r *rig, s *server, check func(when string)) {
	t.Helper()
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	check("after its end")
	r.popBroken()
	r.awaitNoneClosed()
}

// What an i-sock has carried counts once for its endpoint, and for its workload and cluster: while it is open, when it has closed, and when its slot is free.
func TestTrafficOutlivesItsISock(t *testing.T) {
	t.Parallel()
	r, s, slot := leaseOfWeb(t)
	sl := &r.shared.Slots[slot]
	atomic.StoreUint64(&sl.Traffic.BytesSent, 100)
	atomic.StoreUint64(&sl.Traffic.BytesReceived, 2000)
	atomic.StoreUint64(&sl.Traffic.ProgramNs, 500)
	atomic.StoreUint64(&sl.Traffic.Responses[1], 1)
	r.shared.ResponseDone(r.shared.Current(slot))
	ofEndpoint := xlbmaps.Traffic{Requests: 1, Responses: [5]uint64{1: 1}, BytesSent: 100, BytesReceived: 2000, ProgramNs: 500}
	want := usage.Sum{toWeb: {Requests: 1, RequestBytes: 100, ResponseBytes: 2000, ProgramTime: 500}}
	check := func(when string) {
		t.Helper()
		if got := r.traffic()[ours]; got != ofEndpoint {
			t.Errorf("traffic %s: got %+v, want %+v", when, got, ofEndpoint)
		}
		if got := r.p.Carried(); !maps.Equal(got, want) {
			t.Errorf("carried %s: got %v, want %v", when, got, want)
		}
	}
	check("while the i-sock is open")
	freeSlot(t, r, s, check)
	check("when the slot is free")
}

// Who works for a lease may ask whose it is when its i-sock has just failed.
func TestASlotIsItsWorkloadsUntilItIsFree(t *testing.T) {
	t.Parallel()
	r, s, slot := leaseOfWeb(t)
	check := func(when string, want usage.Destination) {
		t.Helper()
		if got := r.p.Carries(slot); got != want {
			t.Errorf("%s: the slot is that of %+v, want %+v", when, got, want)
		}
	}
	check("while the i-sock is open", toWeb)
	r.shared.ResponseDone(r.shared.Current(slot))
	freeSlot(t, r, s, func(when string) { check(when, toWeb) })
	check("when the slot is free", usage.Destination{})
}

// The slots of a cluster that has gone still have what they have carried while their last requests run: it goes with what they carried before, and not earlier.
func TestTrafficOfAClusterThatHasGoneStaysUntilItsSlotsAreFree(t *testing.T) {
	t.Parallel()
	r, s, slot := leaseOfWeb(t)
	r.p.cfg.Ledger.Add(toWeb, usage.Traffic{Requests: 9})
	gone := func(string) bool { return false }
	r.p.SweepCarried(gone)
	if got := r.p.Carried()[toWeb].Requests; got != 10 {
		t.Errorf("%d requests while one runs, want 10", got)
	}
	r.shared.ResponseDone(r.shared.Current(slot))
	freeSlot(t, r, s, func(string) {})
	r.p.SweepCarried(gone)
	if got := r.p.Carried(); len(got) != 0 {
		t.Errorf("carried %v when the slot is free, want nothing", got)
	}
}
