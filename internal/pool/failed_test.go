// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// The sock_ops program may have found a slot that was announced, and write to it after the connect
// has failed: the next i-sock must not be there yet.
func TestSlotOfAFailedConnectWaitsForProgramsThatRun(t *testing.T) {
	t.Parallel()
	waits, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	// The grace period ends when the test says so.
	settle := func() error {
		once.Do(func() { close(waits) })
		<-ended
		return nil
	}
	r := newRig(t, setup{slots: 1, waitForReaders: settle})
	end := sync.OnceFunc(func() { close(ended) })
	t.Cleanup(end)
	s := newServer(t)
	must(t, s.listener.Close())
	r.set(s.endpoint(ours))
	await.Next(t, waits, "wait for programs that run")
	r.awaitDown(ours, true)
	if got, want := r.state(0), maps.SlotBroken; got != want {
		t.Errorf("state of the slot while a program may be at work on it: got %d, want %d", got, want)
	}
	if got := r.free(); got != 0 {
		t.Errorf("free slots while a program may be at work on the only one: got %d, want 0", got)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", s.address.String())
	must(t, err)
	serve(t, l)
	r.closeAtEnd()
	end()
	r.awaitIdle(ours, 1)
}

// The index of an endpoint that has gone is another's only when the slots are free that it was
// announced with.
func TestEndpointWithAFailedConnectIsReleasedBehindItsSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newServer(t)
	must(t, s.listener.Close())
	r.set(s.endpoint(ours))
	r.awaitDown(ours, true)
	r.p.SetEndpoints(nil)
	if got := await.Next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
}

// free counts the slots that may be used.
func (r *rig) free() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return len(r.p.free)
}

// A server that ends may read the first request of a connection, and close without an answer. What has carried a request stays: such a server answers there,
// and may go on to do so.
func TestUnusedISocksCloseWhereNoServerListensAnyMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 4})
	s := r.start(4)
	closes, stays := r.lease(request{cookie: 7}), r.lease(request{cookie: 8})
	for _, slot := range []uint32{closes, stays} {
		r.shared.ResponseDone(r.shared.Current(slot))
	}
	must(t, s.listener.Close())
	must(t, r.connOf(s, closes).Close())
	r.awaitView(func(open, dialing int) bool { return open == 1 && dialing == 0 })
	if got, want := r.state(stays), maps.SlotReady; got != want {
		t.Errorf("state of the i-sock that has carried a request: got %d, want %d", got, want)
	}
	if r.down(ours) {
		t.Error("the endpoint is out of service, although it has a connection")
	}
}

// A server, or a firewall, may take so many connections of a client, and refuse others: those that it has taken are not closed at each refusal.
func TestEndpointThatTakesAFewConnectionsIsNotConnectedToWithoutEnd(t *testing.T) {
	t.Parallel()
	const most = 4
	var taken, connects, refusals atomic.Int32
	r := newRig(t, setup{initial: most + 2, connecting: func() error {
		if taken.Add(1) > most {
			taken.Add(-1)
			refusals.Add(1)
			return fmt.Errorf("connect: %w", unix.ECONNREFUSED)
		}
		connects.Add(1)
		return nil
	}})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
				taken.Add(-1)
			}()
		}
	}()
	r.set(Endpoint{Index: ours, Address: l.Addr().(*net.TCPAddr).AddrPort(), ConnectTimeout: timeout})
	await.Quiet(t, func() string {
		if n := refusals.Load(); n < 6 {
			return fmt.Sprintf("%d connects were refused", n)
		}
		return ""
	})
	// All are closed once.
	if n := connects.Load(); n > 3*most {
		t.Errorf("%d connections were made to an endpoint that takes %d", n, most)
	}
}
