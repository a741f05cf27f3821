// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"maps"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

// What an i-sock has carried counts once for its workload and its cluster: while it is open, when it has closed, and when its slot is free.
func TestTrafficCountsForItsWorkloadAndCluster(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newServer(t)
	e := s.endpoint(ours)
	e.Cluster = "web"
	r.set(e)
	r.awaitIdle(ours, 1)
	slot := r.lease(request{cookie: 7})
	sl := &r.shared.Slots[slot]
	atomic.StoreUint64(&sl.Traffic.BytesSent, 100)
	atomic.StoreUint64(&sl.Traffic.BytesReceived, 2000)
	r.shared.ResponseDone(r.shared.Current(slot))
	want := usage.Sum{{Workload: workload.Host, Cluster: "web"}: {Requests: 1, RequestBytes: 100, ResponseBytes: 2000}}
	check := func(when string) {
		t.Helper()
		if got := r.p.Carried(); !maps.Equal(got, want) {
			t.Errorf("carried %s: got %v, want %v", when, got, want)
		}
	}
	check("while the i-sock is open")
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	check("after its end")
	r.popBroken()
	r.awaitNoneClosed()
	check("when the slot is free")
}

// The slots of a cluster that has gone still have what they have carried while their last requests run: it goes with what they carried before, and not earlier.
func TestTrafficOfAClusterThatHasGoneStaysUntilItsSlotsAreFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newServer(t)
	e := s.endpoint(ours)
	e.Cluster = "web"
	r.set(e)
	r.awaitIdle(ours, 1)
	to := usage.Destination{Workload: workload.Host, Cluster: "web"}
	r.p.cfg.Ledger.Add(to, usage.Traffic{Requests: 9})
	slot := r.lease(request{cookie: 7})
	gone := func(string) bool { return false }
	r.p.SweepCarried(gone)
	if got := r.p.Carried()[to].Requests; got != 10 {
		t.Errorf("%d requests while one runs, want 10", got)
	}
	r.shared.ResponseDone(r.shared.Current(slot))
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	r.popBroken()
	r.awaitNoneClosed()
	r.p.SweepCarried(gone)
	if got := r.p.Carried(); len(got) != 0 {
		t.Errorf("carried %v when the slot is free, want nothing", got)
	}
}
