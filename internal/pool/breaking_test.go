// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestBreaksAreReplacedAtARate(t *testing.T) {
	t.Parallel()
	var b breaking
	now := time.Now()
	count := func() (n int) {
		for b.allowReplacement(now) {
			n++
		}
		return n
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{
		{0, breaksAtOnce}, {0, 0}, {time.Second, breaksPerSecond}, {time.Second / 4, breaksPerSecond / 4}, {time.Hour, breaksAtOnce},
	} {
		now = now.Add(tt.after)
		if got := count(); got != tt.want {
			t.Errorf("i-socks replaced %s later: got %d, want %d", tt.after, got, tt.want)
		}
	}
}

// Clients that break one i-sock after the other have so many opened and no more, whatever they
// miss; and when they have gone all are there again.
func TestISocksThatClientsBreakAreReplacedAtARate(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 64, initial: 4})
	s := r.start(4)
	// What may be replaced at once has gone, and for a while what may be later.
	r.p.mu.Lock()
	e := r.host(ours)
	e.breaking = breaking{used: 100 * breaksAtOnce}
	r.p.mu.Unlock()
	for range 4 {
		slot := r.lease(request{cookie: 7})
		r.breakSlot(slot, false)
		r.p.Broken(slot)
		r.miss(ours, 100)
	}
	r.sweepTwice()
	if open, dialing, _, _ := r.view(ours); open+dialing != 0 || len(s.conns()) != 4 {
		t.Errorf("i-socks in place of four that clients have broken: %d are open, %d are being opened, %d connections in all", open, dialing, len(s.conns()))
	}
	if got := r.p.HeldBack(); got != 4 {
		t.Errorf("held back: got %d, want 4", got)
	}
	r.p.mu.Lock()
	e.breaking.used = 0
	r.p.mu.Unlock()
	r.awaitIdle(ours, 4)
}

// An endpoint that closes connections has others opened as before.
func TestISocksThatEndpointsBreakAreNotHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 64, initial: 4})
	s := r.start(4)
	r.p.mu.Lock()
	r.host(ours).breaking = breaking{used: 100 * breaksAtOnce}
	r.p.mu.Unlock()
	r.serveOne()
	for range 4 {
		slot := r.lease(request{cookie: 7})
		must(t, r.connOf(s, slot).Close())
	}
	s.await(8)
	r.awaitIdle(ours, 4)
	if got := r.p.HeldBack(); got != 0 {
		t.Errorf("held back: got %d, want 0", got)
	}
}

// Who reads what a client has sent of a request must not take it for whole.
func TestISockBrokenAmidARequestIsReset(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		q    request
		want string
	}{
		{"amid a request", request{cookie: 7, open: true}, "reset"},
		{"behind a request", request{cookie: 7}, "end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			s := r.start(1)
			slot := r.lease(tt.q)
			c := r.connOf(s, slot)
			r.breakSlot(slot, false)
			r.p.Broken(slot)
			must(t, c.SetReadDeadline(time.Now().Add(patience)))
			got := "end"
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, unix.ECONNRESET) {
				got = "reset"
			}
			if got != tt.want {
				t.Errorf("what the endpoint sees: got %s, want %s", got, tt.want)
			}
		})
	}
}

// A daemon that ends leaves no socket behind whose endpoint reads nothing.
func TestISocksWithUnsentBytesAreResetAtTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	c := r.connOf(s, slot)
	r.p.mu.Lock()
	fd := r.p.isocks[slot].fd
	r.p.mu.Unlock()
	// More than the endpoint has room for.
	for err := error(nil); err == nil; {
		_, err = unix.SendmsgN(fd, make([]byte, 1<<20), nil, nil, unix.MSG_DONTWAIT)
	}
	must(t, r.p.Close())
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("end of a connection with unsent bytes: got %v, want a reset", err)
	}
}
