// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
)

// limitedRig is one whose listener has limits. There are no programs: what the kernel knows of clients is nothing.
func limitedRig(t *testing.T, l Limits) *rig {
	t.Helper()
	r, _ := changingRig(t, l)
	return r
}

// changingRig is one whose listener gets other limits by change.
func changingRig(t *testing.T, l Limits) (r *rig, change func(Limits)) {
	t.Helper()
	var limits atomic.Pointer[Limits]
	limits.Store(&l)
	r = prepare(t, setup{slowPathOnly: true, serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		result := echo(ctx, conn, s)
		result.Requests = 1
		return result
	}})
	r.cfg.Limits = func(uint32) Limits { return *limits.Load() }
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	return r, func(l Limits) {
		limits.Store(&l)
		r.s.LimitsChanged(map[uint32]Limits{testListener: l})
	}
}

func TestIdleConnectionsClose(t *testing.T) {
	const idle, drain = 80 * time.Millisecond, 60 * time.Millisecond
	r, change := changingRig(t, Limits{})
	// From before the time can have begun: this goroutine may wait for a processor. The limit follows: to dial takes a connection that is open.
	began := time.Now()
	silent := r.dial()
	change(Limits{Idle: idle, Drain: drain})
	silent.mustEnd(io.EOF)
	if took := time.Since(began); took < idle {
		t.Errorf("a connection without a request has closed after %v, want %v", took, idle)
	}
	change(Limits{})
	user := r.dial()
	began = time.Now()
	user.exchange("hello")
	change(Limits{Idle: idle, Drain: drain})
	user.mustEnd(io.EOF)
	if took := time.Since(began); took < idle+drain {
		t.Errorf("a connection that was used has closed after %v, want %v", took, idle+drain)
	}
}

func TestConnectionsInUseStay(t *testing.T) {
	const idle = 400 * time.Millisecond
	await.OneOfThree(t, "a connection in use", func() (difference string) {
		return limitedRig(t, Limits{Idle: idle, Drain: time.Hour}).dial().use(idle)
	})
}

func TestOldConnectionsAreToldToClose(t *testing.T) {
	r, change := changingRig(t, Limits{})
	c := r.dial()
	c.exchange("hello")
	// Only now: one that is too old when its first request comes has had no time for it.
	change(Limits{Age: 50 * time.Millisecond, Drain: time.Hour})
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
	c.exchange("hello") // it is open for one more
}

// Each connection has been told when it is looked at next, by the limits of before.
func TestShorterLimitsApplyAtOnce(t *testing.T) {
	r, change := changingRig(t, Limits{Idle: time.Hour})
	c := r.dial()
	c.exchange("hello")
	await.Quiet(t, func() string {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		if len(r.s.limited) == 1 && r.s.pace > 0 {
			return ""
		}
		return "the connection is not watched"
	})
	c.mustStayOpen()
	change(Limits{Idle: 100 * time.Millisecond})
	c.mustEnd(io.EOF)
}

func TestListenersWithoutLimitsCostNothing(t *testing.T) {
	r := limitedRig(t, Limits{})
	r.dial().exchange("hello")
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if len(r.s.limited) > 0 || r.s.pace != 0 {
		t.Errorf("%d connections are watched, every %v", len(r.s.limited), r.s.pace)
	}
}

func TestClientsThatDoNotBeginAreEnded(t *testing.T) {
	const opening = 80 * time.Millisecond
	r, change := changingRig(t, Limits{})
	user := r.dial()
	user.exchange("hello")
	change(Limits{Opening: opening})
	began := time.Now()
	r.dial().mustEnd(io.EOF)
	if took := time.Since(began); took < opening {
		t.Errorf("a connection without a request has closed after %v, want %v", took, opening)
	}
	// It has begun.
	user.exchange("hello")
}

func TestClientsThatDoNotBeginAreServedWithout(t *testing.T) {
	r := prepare(t, setup{slowPathOnly: true, serve: func(_ context.Context, conn net.Conn, _ Session) Result {
		n, _ := conn.Write([]byte("welcome"))
		conn.Close()
		return Result{Written: uint64(n)}
	}})
	r.cfg.Limits = func(uint32) Limits { return Limits{Opening: 50 * time.Millisecond, Unopened: true} }
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	for _, c := range []*client{r.dial(), r.reach(address)} {
		c.mustReceive("welcome")
		c.mustEnd(io.EOF)
	}
}
