// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"io"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// viewRig has the workload see view 3, of which the listener is.
func viewRig(t *testing.T, l Limits) *rig {
	t.Helper()
	l.View = 3
	r, _ := changingRig(t, l)
	r.cfg.Own.See(3)
	return r
}

// see has the workload see a view.
func (r *rig) see(view uint32) {
	r.cfg.Own.See(view)
	r.s.ViewsChanged()
}

// watched is how many connections may have to end.
func (r *rig) watched() int {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return len(r.s.limited)
}

// A connection of a view that its workload sees no more carries one more request, the answer to which says that it closes.
func TestConnectionsEndBehindARequestWhenTheirWorkloadSeesAnotherView(t *testing.T) {
	r := viewRig(t, Limits{Drain: time.Hour})
	c := r.dial()
	c.exchange("hello")
	r.see(3)
	if n := r.watched(); n != 0 {
		t.Errorf("%d connections are watched whose view is the workload's", n)
	}
	r.see(4)
	await.Quiet(t, func() string {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		for conn := range r.s.limited {
			if conn.closing.Load() {
				return ""
			}
		}
		return "the answer to the next request would not close the connection"
	})
	c.exchange("hello")
}

func TestUnusedConnectionsEndWhenTheirWorkloadSeesAnotherView(t *testing.T) {
	const drain = 60 * time.Millisecond
	r := viewRig(t, Limits{Drain: drain})
	silent, user := r.dial(), r.dial()
	user.exchange("hello")
	began := time.Now()
	r.see(0)
	silent.mustEnd(io.EOF)
	user.mustEnd(io.EOF)
	if took := time.Since(began); took < drain {
		t.Errorf("a connection that was used has closed after %v, want %v", took, drain)
	}
	// One that was about to be accepted is of the former view, too.
	began = time.Now()
	r.dial().mustEnd(io.EOF)
	if took := time.Since(began); took < drain {
		t.Errorf("a connection that may be about to be used has closed after %v, want %v", took, drain)
	}
}

// The view of the host is that of its own clients: those of a bound socket have none.
func TestConnectionsToBoundSocketsHaveNoView(t *testing.T) {
	r := viewRig(t, Limits{})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	c := r.reach(address)
	c.exchange("one")
	r.see(4)
	if n := r.watched(); n != 0 {
		t.Errorf("%d connections are watched", n)
	}
	c.exchange("two")
}

// The kernel programs lead new connections by the view; a workload that is left alone gets it when it is announced.
func TestAWorkloadsViewIsAnnounced(t *testing.T) {
	r := newRig(t, setup{})
	own := r.cfg.Own
	look := func(view uint32) {
		t.Helper()
		own.See(view)
		must(t, r.s.Look(own))
	}
	before := r.ports()
	look(4)
	want := before
	if want.View = 4; r.ports() != want {
		t.Errorf("announced %+v, want %+v", r.ports(), want)
	}
	must(t, r.s.Withdraw(own))
	look(5)
	if got := r.ports(); got != (maps.AnchorPorts{Workload: before.Workload}) {
		t.Errorf("left alone, %+v is announced", got)
	}
	must(t, r.s.Announce(own))
	if want.View = 5; r.ports() != want {
		t.Errorf("announced again %+v, want %+v", r.ports(), want)
	}
}

func TestConnectionsThatOutliveTheirViewStay(t *testing.T) {
	r := viewRig(t, Limits{AnyView: true})
	c := r.dial()
	c.exchange("hello")
	r.see(4)
	if n := r.watched(); n != 0 {
		t.Errorf("%d connections are watched", n)
	}
	c.exchange("hello")
}
