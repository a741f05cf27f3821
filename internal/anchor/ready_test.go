// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// hold keeps everyone from accepting at the listeners of workloads: a look at one waits until release.
func (r *rig) hold(list ...*workload.Workload) (release func()) {
	r.t.Helper()
	var held []*listener
	for _, w := range list {
		its, _ := r.s.listenersOf(w)
		held = append(held, its...)
	}
	for _, l := range held {
		l.mu.Lock()
	}
	return func() {
		for _, l := range held {
			l.mu.Unlock()
		}
	}
}

// start runs f, and tells when it has returned.
func start(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// A look for connections at one listener costs a system call, and there may be thousands. It would wait here.
func TestLooksPassWorkloadsByWhereNoConnectionWaits(t *testing.T) {
	looks := []struct {
		name string
		look func(*Set)
	}{
		{"accept now", (*Set).AcceptNow},
		{"sweep to make room", (*Set).sweep},
		{"sweep of all", func(s *Set) {
			s.sweepAll.Store(true)
			s.sweep()
		}},
	}
	for _, slowPathOnly := range []bool{false, true} {
		for _, tt := range looks {
			t.Run(fmt.Sprintf("%s, slow path only %v", tt.name, slowPathOnly), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, setup{slowPathOnly: slowPathOnly})
				if r.s.accepting != nil {
					r.s.accepting.Stop()
				}
				var quiet []*workload.Workload
				for id := range workload.ID(8) {
					quiet = append(quiet, r.joined(id+1))
				}
				busy := r.joined(9)
				r.dial()
				r.within(busy, func() { r.dial() })
				r.arrive(2)
				release := r.hold(quiet...)
				defer release()
				await.Next(t, start(func() { tt.look(r.s) }), "end of the look")
				// Without the fast path the poller may be about to.
				await.Quiet(t, func() string {
					if host, other := r.s.countOpen(workload.Host), r.s.countOpen(9); host != 1 || other != 1 {
						return fmt.Sprintf("%d connections of the host are accepted and %d of the workload, want 1 of each", host, other)
					}
					return ""
				})
			})
		}
	}
}

func TestOneLookAcceptsAtAllWorkloads(t *testing.T) {
	t.Parallel()
	r := newStillRig(t)
	const workloads, clients = 6, 3
	for id := range workload.ID(workloads) {
		r.within(r.joined(id+1), func() {
			for _, to := range r.addresses() {
				for range clients {
					r.dialTo(to)
				}
			}
		})
	}
	r.s.AcceptNow()
	for id := range workload.ID(workloads) {
		if n := r.s.countOpen(id + 1); n == 0 || n%clients != 0 {
			t.Errorf("%d connections of workload %d are open", n, id+1)
		}
	}
	if ready := r.s.ready.look(); len(ready) != 0 {
		t.Errorf("connections wait at %d listeners behind the look", len(ready))
	}
}

// A listener whose connections cannot be accepted is looked at once, and again at the next look.
func TestLookEndsWithoutDescriptors(t *testing.T) {
	r := newStillRig(t)
	r.within(r.joined(1), func() { r.dial() })
	release := useDescriptorsUp(t)
	for range 3 {
		before := r.s.refusals.Load()
		await.Next(t, start(r.s.AcceptNow), "end of the look")
		its, _ := r.s.listenersOf(r.cfg.Own)
		if got, want := r.s.refusals.Load()-before, uint64(len(its)+1); got != want {
			t.Errorf("%d looks for a connection failed, want %d", got, want)
		}
	}
	release()
	r.s.AcceptNow()
	r.mustHave(1, 0)
}

// AcceptNow says that whatever waited is in the books: a client that is not there by then has gone.
func TestAcceptNowWaitsForThoseThatAccept(t *testing.T) {
	r := prepare(t, setup{})
	slow := hold(r.cfg.Sockets.Conns, func(maps.ConnKey) bool { return true })
	r.cfg.Sockets.Conns = slow
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	s.accepting.Stop()
	w := r.joined(1)
	r.within(w, func() {
		c := r.dialClosed()
		must(t, c.SetLinger(0))
		must(t, c.Close())
	})
	its, _ := s.listenersOf(w)
	first := start(func() { its[0].accept(all, all) })
	await.Next(t, slow.asked, "a connection that is being accepted")
	second := start(s.AcceptNow)
	select {
	case <-second:
		t.Error("AcceptNow returns while a connection is accepted")
	case <-time.After(tooEarly):
	}
	close(slow.answer)
	await.Next(t, first, "end of the first")
	await.Next(t, second, "end of AcceptNow")
}

func TestListenersThatHaveClosedAreNotLookedAt(t *testing.T) {
	r := newStillRig(t)
	w := r.joined(1)
	r.within(w, func() { r.dial() })
	its, _ := r.s.listenersOf(w)
	must(t, closeAll(its))
	r.s.AcceptNow()
	r.mustHave(0, 0)
	r.s.ready.mu.Lock()
	watched := len(r.s.ready.listeners)
	r.s.ready.mu.Unlock()
	if watched != 0 {
		t.Errorf("%d listeners that have closed are watched", watched)
	}
	for range 2 {
		must(t, r.s.Close())
		r.s.AcceptNow()
	}
}
