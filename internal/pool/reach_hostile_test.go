// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// A workload decides for itself when its connects succeed: what it does in turns is not seen by others, nor in the log, at its pace.
func TestWitnessThatReachesInTurnsDoesNotHaveAnEndpointFlap(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	n.uses(1, ours+1)
	var log bytes.Buffer
	const turns = 1000
	r.locked(func() {
		was := r.p.cfg.Logger
		r.p.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		defer func() { r.p.cfg.Logger = was }()
		d, o := r.p.destinations[ours], r.p.origins[1]
		for range turns {
			r.p.reachedLocked(d, o)
			r.p.unreachedLocked(d, o, errNoAnswer)
		}
	})
	if lines := strings.Count(log.String(), "\n"); lines > 10 {
		t.Errorf("%d lines of %d turns, want 10 at most", lines, turns)
	}
	r.mustBeConsistent()
}

// Any workload may use its own ports up. It does not show then that it reaches anything.
func TestWitnessWithoutPortsEnds(t *testing.T) {
	t.Parallel()
	for _, shortage := range []error{unix.EADDRNOTAVAIL, unix.EADDRINUSE} {
		r, n, _ := inPod(t, setup{})
		n.uses(1, ours)
		r.awaitProbed(ours)
		r.locked(func() {
			d, o := r.p.destinations[ours], r.p.origins[1]
			d.prober = o
			r.p.probedLocked(d, o, fmt.Errorf("connect: %w", shortage))
		})
		r.mustBeDown(ours, true, fmt.Sprintf("behind %v", shortage))
	}
}

// It is no connect that has failed.
func TestUnusedISockThatClosesEndsNoWitnessThatHasOthers(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{max: 2})
	n.uses(1, ours)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 2)
	r.locked(func() {
		s := r.p.destinations[ours].subpools[1].isocks[0]
		r.p.lostLocked(s, Reset)
	})
	r.mustBeDown(ours, false, "when one of two i-socks has closed")
}

// Thousands of both may be: nothing is done for each of one and each of the other.
func TestSearchForWorkloadsThatReachLooksAtFew(t *testing.T) {
	t.Parallel()
	const many = 3 * maxProbes
	r := newRig(t, setup{eager: -1, endpoints: many, slots: 4 * many})
	n := r.podnet()
	var list []Endpoint
	for i := range uint32(many) {
		list = append(list, n.silent(i))
	}
	list[0] = n.server(0).endpoint(0)
	other := model.SharedCluster("other")
	for i := range list[1:] {
		list[1+i].Cluster = other
	}
	r.set(list...)
	for id := range workload.ID(many) {
		n.join(id + 1)
		n.uses(id+1, 0)
	}
	r.locked(func() {
		looks := 0
		if o := r.p.userLocked(other, func(*origin) bool { looks++; return true }); o != nil || looks > 0 {
			t.Errorf("%d looks at workloads that do not use the cluster, want none", looks)
		}
	})
	for i := range list[1:] {
		r.locked(func() {
			d := r.p.destinations[uint32(1+i)]
			// As if all of them used it.
			d.Cluster = list[0].Cluster
			r.p.missLocked(d, errNoAnswer)
			d.Cluster = other
		})
	}
	waiting := 0
	r.locked(func() {
		for _, o := range r.p.origins {
			waiting += len(o.probes)
		}
	})
	if waiting != maxProbes {
		t.Errorf("%d probes of what no workload is known to reach, want %d: those of what one is known to reach would come behind all", waiting, maxProbes)
	}
	r.locked(func() {
		for _, d := range r.p.destinations {
			r.p.upLocked(d)
		}
	})
}

// Each takes a port of the workload for a minute, and the bound of those is one of all of the daemon's connections.
func TestProbesLeaveOthersTheirOrderlyEnds(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	var l net.Listener
	must(t, n.ns.Within(func() (err error) {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", netip.AddrPortFrom(documentation.Addr(), 0).String())
		return err
	}))
	t.Cleanup(func() { l.Close() })
	o, e := r.p.origins[1], Endpoint{Address: l.Addr().(*net.TCPAddr).AddrPort(), ConnectTimeout: timeout}
	for range upstream.MaxWaiting {
		must(t, r.p.connectOnce(o, &e))
	}
	fd, err := r.p.dialer.connect(r.p.ctx, o, e.Address, timeout, func(netip.AddrPort, uint32) error { return nil })
	must(t, err)
	defer unix.Close(fd)
	if r.p.cfg.Partings.Part(fd) {
		t.Error("another connection has to be reset, since probes have closed in order")
	}
}

// The pause is no longer than it has to be for a server that starts again now and then, nor is it without end.
func TestPauseBehindAWitnessGrowsWhereItHasNotLasted(t *testing.T) {
	t.Parallel()
	r, n, _ := inPod(t, setup{})
	n.join(2)
	lose := func(lasted time.Duration) (pause time.Duration) {
		r.locked(func() {
			d, o := r.p.destinations[ours], r.p.origins[2]
			d.wary = time.Time{}
			r.p.reachedLocked(d, o)
			d.since = d.since.Add(-lasted)
			r.p.unreachedLocked(d, o, errNoAnswer)
			pause = d.pause
		})
		return pause
	}
	for i, want := range []time.Duration{probePause, 2 * probePause, 4 * probePause} {
		if got := lose(0); got != want {
			t.Errorf("pause %d: got %v, want %v", i, got, want)
		}
	}
	for range 10 {
		lose(0)
	}
	if got := lose(0); got != longestPause {
		t.Errorf("the longest pause: got %v, want %v", got, longestPause)
	}
	if got := lose(confirmPause + time.Second); got != probePause {
		t.Errorf("pause behind a witness that has lasted: got %v, want %v", got, probePause)
	}
	r.mustBeDown(ours, true, "in a pause")
	r.p.Answered(ours, 2)
	r.locked(func() {
		if r.p.destinations[ours].prober != nil {
			t.Error("a response has it probed in a pause")
		}
	})
}

// A zone that fails has all that a witness reaches hang at once: one at a time, each for two seconds, a thousand of them would stay in service for half an hour.
func TestProbesOfAWitnessHangBesideOneAnother(t *testing.T) {
	t.Parallel()
	const hang = maxProbesOfWorkload + 1
	r := newRig(t, setup{eager: -1, endpoints: hang})
	n := r.podnet()
	var list []Endpoint
	for i := range uint32(hang) {
		list = append(list, n.silent(i))
	}
	r.set(list...)
	n.join(1)
	r.locked(func() {
		for _, d := range r.p.destinations {
			r.p.failedLocked(d.host(), errNoAnswer)
			r.p.reachedLocked(d, r.p.origins[1])
			d.probeAt = time.Time{}
			r.p.probeLocked(d, time.Now())
		}
	})
	await.Quiet(t, func() string {
		if got := len(r.p.probeTickets); got != maxProbesOfWorkload {
			return fmt.Sprintf("%d probes in progress, want %d", got, maxProbesOfWorkload)
		}
		return ""
	})
	r.mustBeConsistent()
	for i := range uint32(hang) {
		r.awaitDown(i, true)
	}
	r.mustBeConsistent()
	if r.p.probers != 0 || len(r.p.origins[1].probes) != 0 {
		t.Errorf("%d goroutines that probe, %d that wait for them, want none", r.p.probers, len(r.p.origins[1].probes))
	}
}
