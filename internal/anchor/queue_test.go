// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/test/await"
)

// As long as there are no descriptors the poller would report a connection without end.
func TestAcceptingPausesWithoutDescriptors(t *testing.T) {
	for _, tt := range []struct {
		name string
		// arrive has a client wait to be accepted. accept lets that begin, and served waits for its end.
		arrive func(*rig) (accept, served func())
	}{
		{"listener", arriveAtListener},
		{"bound socket", arriveAtBound},
		{"name of a bound socket", arriveAtName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, setup{slowPathOnly: true})
			accept, served := tt.arrive(r)
			release := useDescriptorsUp(t)
			began := time.Now()
			accept()
			await.Quiet(t, func() string {
				if n := r.s.refusals.Load(); n < 3 {
					return fmt.Sprintf("%d connections are refused, want 3", n)
				}
				return ""
			})
			// Each pause lasts as long at least, whatever else runs.
			if n, most := r.s.refusals.Load(), uint64(time.Since(began)/failingPause)+1; n > most {
				t.Errorf("%d connections are refused in a time for %d", n, most)
			}
			release()
			served()
		})
	}
}

func arriveAtListener(r *rig) (accept, served func()) {
	its, _ := r.s.listenersOf(r.cfg.Own)
	for _, l := range its {
		l.mu.Lock()
	}
	c := r.dial()
	accept = func() {
		for _, l := range its {
			l.mu.Unlock()
		}
	}
	return accept, func() { c.exchange("a request") }
}

func arriveAtBound(r *rig) (accept, served func()) {
	b, address := r.bind(BoundTo{Listener: testListener})
	must(r.t, unix.Listen(b.fd, backlog))
	c := r.reach(address)
	return func() { must(r.t, b.Listen()) }, func() { c.exchange("a request") }
}

func arriveAtName(r *rig) (accept, served func()) {
	b, _ := r.bind(BoundTo{})
	b.share.mu.Lock()
	conn, err := knock(b.share.name)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, unix.Close(conn)) })
	return b.share.mu.Unlock, func() {
		bound, name, err := receive(conn)
		must(r.t, err)
		must(r.t, unix.Close(bound))
		must(r.t, unix.Close(name))
	}
}

// Root ends the socket of a process, with ss -K: it listens no more, and epoll goes on to report that.
func TestSocketThatWasEndedIsNotTriedWithoutEnd(t *testing.T) {
	r := newRig(t, setup{})
	b, _ := r.bind(BoundTo{})
	must(t, unix.Listen(b.fd, backlog))
	must(t, unix.Shutdown(b.fd, unix.SHUT_RDWR))
	var looks atomic.Int64
	began := time.Now()
	must(t, b.watch(func() {
		b.acceptAll()
		looks.Add(1)
	}))
	await.Quiet(t, func() string {
		if n := looks.Load(); n < 3 {
			return fmt.Sprintf("there were %d looks, want 3", n)
		}
		return ""
	})
	if n, most := looks.Load(), int64(time.Since(began)/failingPause)+1; n > most {
		t.Errorf("there were %d looks in a time for %d", n, most)
	}
}

// The poller serves all sockets on one goroutine: clients that connect without end must not keep it from the others.
func TestAcceptingAtABoundSocketKeepsNoOtherWaiting(t *testing.T) {
	r := newRig(t, setup{})
	arrived, admit := make(chan struct{}), make(chan struct{})
	slow, slowAddress := r.bind(BoundTo{Listener: testListener, Admits: func(int) bool {
		close(arrived)
		<-admit
		return true
	}})
	other, otherAddress := r.bind(BoundTo{Listener: testListener})
	release := sync.OnceFunc(func() { close(admit) })
	t.Cleanup(release) // before the sockets close, also where the test fails
	must(t, slow.Listen())
	must(t, other.Listen())
	waiting := r.reach(slowAddress)
	await.Next(t, arrived, "a connection that is being accepted")
	c := r.reach(otherAddress)
	c.exchange("meanwhile")
	c.exchange("and again")
	release()
	waiting.exchange("behind it")
}

func TestConnectionsThatWaitAreAcceptedInPortions(t *testing.T) {
	const waiting = 3 * sweepPortion
	r := newRig(t, setup{slowPathOnly: true})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, unix.Listen(b.fd, waiting)) // the poller does not know of it
	for range waiting {
		r.reach(address)
	}
	var portions []int
	b.inPortions(&shares.Ticket{}, func(most int) int {
		if !b.mu.TryLock() {
			t.Error("the socket is locked between two portions")
			return 0
		}
		b.mu.Unlock()
		n := b.accept(most)
		portions = append(portions, n)
		return n
	})
	if want := []int{sweepPortion, sweepPortion, sweepPortion, 0}; !slices.Equal(portions, want) {
		t.Errorf("accepted %v, want %v", portions, want)
	}
}

// counter counts the events of a socket.
type counter struct {
	calls  atomic.Int64
	events chan struct{}
}

func (c *counter) Ready() {
	c.calls.Add(1)
	c.events <- struct{}{}
}

// readable is a descriptor with a byte to read, watched by a counter that has had that event.
func (r *rig) readable() (fd int, c *counter) {
	r.t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(r.t, err)
	r.t.Cleanup(func() {
		r.s.poller.Forget(pair[0])
		must(r.t, unix.Close(pair[0]))
		must(r.t, unix.Close(pair[1]))
	})
	_, err = unix.Write(pair[1], []byte("x"))
	must(r.t, err)
	c = &counter{events: make(chan struct{}, 2)}
	must(r.t, r.s.poller.Watch(pair[0], c))
	await.Next(r.t, c.events, "a byte")
	return pair[0], c
}

// A goroutine may have accepted all just before the socket is closed, and another socket may have the descriptor when it goes on.
func TestClosedSocketDoesNotRearmTheNextWithItsDescriptor(t *testing.T) {
	r := newRig(t, setup{})
	fd, next := r.readable()
	closed := queue{set: r.s, fd: fd, closed: true}
	closed.rearm()
	r.readable() // events come in order
	if n := next.calls.Load(); n != 1 {
		t.Errorf("the next socket has had %d events, want 1", n)
	}
}
