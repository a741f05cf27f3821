// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// panics requires that so many were recovered.
func (r *rig) panics(want uint64) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.s.cfg.Crashes.Count(); got < want {
			return "no panic so far"
		}
		return ""
	})
	if got := r.s.cfg.Crashes.Count(); got != want {
		r.t.Errorf("%d panics, want %d", got, want)
	}
}

// A panic of what serves a connection resets it, whichever way it came; another client's is served on.
func TestPanicResetsOneConnection(t *testing.T) {
	for _, tt := range []struct {
		name         string
		bound        bool
		slowPathOnly bool
	}{
		{"that was intercepted", false, false}, {"without the fast path", false, true}, {"at a bound socket", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var faulty atomic.Bool
			r := newRig(t, setup{slowPathOnly: tt.slowPathOnly, serve: func(ctx context.Context, conn net.Conn, s Session) Result {
				if faulty.Load() {
					panic("of the handler")
				}
				return echo(ctx, conn, s)
			}})
			other, c := r.dialOr(tt.bound), r.dialOr(tt.bound)
			other.exchange("before")
			c.exchange("before")
			faulty.Store(true)
			c.send("boom")
			c.mustEnd(unix.ECONNRESET)
			r.panics(1)
			faulty.Store(false)
			other.exchange("behind")
			r.awaitOpen(1)
			r.awaitActive(0)
			if !tt.bound {
				r.awaitNotSlow(c)
			}
		})
	}
}

// A panic of what sends a request on ends its connection.
func TestPanicOfAnUploadResetsItsConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{upload: func(context.Context, Client, maps.Lease) Uploaded { panic("of the upload") }})
	c := r.dial()
	lease := r.openLease(c, 2, 7)
	r.setLeased(2, maps.PendingRequest|maps.PendingResponse, 0)
	c.send("rest")
	c.mustEnd(unix.ECONNRESET)
	r.panics(1)
	r.awaitOpen(0)
	if r.shared.Holds(lease) {
		t.Error("the lease runs still")
	}
}

// A panic of what answers in place of an endpoint resets the connection.
func TestPanicOfAnAnswerResetsTheConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	other, c := r.dial(), r.dial()
	other.exchange("before")
	r.awaitOpen(2)
	if !r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) { panic("of the answer") }) {
		t.Error("the client was gone")
	}
	c.mustEnd(unix.ECONNRESET)
	r.panics(1)
	r.awaitOpen(1)
	other.exchange("behind")
}

// A panic amid the end of a connection leaves nothing of it: no other goroutine ends it again.
func TestPanicAmidTheEndOfAConnectionEndsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	c.exchange("before")
	r.awaitOpen(1)
	r.awaitActive(0)
	// There is no such slot.
	must(t, r.cfg.Sockets.SlowConns.Put(c.cookie, maps.SlowConn{Reason: uint32(maps.HandoverBodySpilled), Slot: 99, Lease: 7, HasLease: 1}))
	r.s.mu.Lock()
	conn := r.s.conns[c.cookie]
	r.s.mu.Unlock()
	if !conn.spawn(conn.close) {
		t.Fatal("the set closes")
	}
	r.panics(1)
	c.mustEnd(io.EOF)
	r.awaitOpen(0)
	r.awaitNotSlow(c)
}

// A panic amid the use of a lock releases it: the goroutine may be one that recovers, and all others go on.
func TestPanicReleasesLocks(t *testing.T) {
	panicking := func(uint32) Limits { panic("of the limits") }
	s := &Set{cfg: Config{Limits: panicking}, conns: map[uint64]*Conn{}, limited: map[*Conn]struct{}{}}
	// It has no socket, and the set no table for its entry.
	c := &Conn{set: s, fd: -1}
	for _, tt := range []struct {
		name  string
		panic func()
		lock  *sync.Mutex
	}{
		{"of the set, by a new connection", func() { s.begin(c) }, &s.mu},
		{"of a connection, by its end", func() { c.closeUnused() }, &c.writeMu},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nothing has panicked", tt.name)
				}
			}()
			tt.panic()
		}()
		if !tt.lock.TryLock() {
			t.Errorf("%s: it is locked still", tt.name)
		}
	}
}
