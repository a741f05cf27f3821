// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/tcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests; tooEarly is how long they watch for what must not happen yet.
const (
	patience = 30 * time.Second
	tooEarly = 10 * time.Millisecond
)

// handlerFunc is a Handler that is a function.
type handlerFunc func()

func (f handlerFunc) Ready() { f() }

// recorder counts its calls and tells of each.
type recorder struct {
	calls atomic.Int32
	told  chan struct{}
}

// newRecorder returns one that may be called as often as a test ever waits for.
func newRecorder() *recorder { return &recorder{told: make(chan struct{}, 1024)} }

func (r *recorder) Ready() {
	r.calls.Add(1)
	select {
	case r.told <- struct{}{}:
	default:
		// A handler must not block.
	}
}

// await returns after the next call.
func (r *recorder) await(t *testing.T, what string) {
	t.Helper()
	await(t, r.told, what)
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %s", what, patience)
	}
}

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// pair is two connected sockets: near is the watched one.
type pair struct{ near, far int }

func newPair(t *testing.T) pair {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{near: fds[0], far: fds[1]}
	t.Cleanup(func() {
		unix.Close(p.near)
		unix.Close(p.far)
	})
	return p
}

// send makes the near socket readable.
func (p pair) send(t *testing.T) {
	t.Helper()
	if _, err := unix.Write(p.far, []byte{'x'}); err != nil {
		t.Fatal(err)
	}
}

// receive takes one byte from the near socket.
func (p pair) receive(t *testing.T) {
	t.Helper()
	if n, err := unix.Read(p.near, make([]byte, 1)); n != 1 {
		t.Fatalf("read: got %d bytes, %v, want 1", n, err)
	}
}

// finish sends the far socket's FIN.
func (p pair) finish(t *testing.T) {
	t.Helper()
	if err := unix.Shutdown(p.far, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
}

// settle returns when everything that was ready at the call has been handled: a socket that becomes ready later is found by a
// later look, or is last in the same one.
func settle(t *testing.T, p *Poller) {
	t.Helper()
	for range 2 {
		s, last := newPair(t), newRecorder()
		must(t, p.Watch(s.near, last))
		s.send(t)
		last.await(t, "last socket")
		p.Forget(s.near)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *recorder) mustHave(t *testing.T, want int32, when string) {
	t.Helper()
	if got := r.calls.Load(); got != want {
		t.Errorf("calls of Ready %s: got %d, want %d", when, got, want)
	}
}

func TestWatchSpeaksOnceUntilRearmed(t *testing.T) {
	tests := []struct {
		name  string
		watch func(*Poller, int, Handler) error
		event func(pair, *testing.T)
	}{
		{"bytes", (*Poller).Watch, pair.send},
		{"end of the peer", (*Poller).Watch, pair.finish},
		{"end of the peer, bytes not watched", (*Poller).WatchClose, pair.finish},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, s, r := newPoller(t), newPair(t), newRecorder()
			must(t, tt.watch(p, s.near, r))
			settle(t, p)
			r.mustHave(t, 0, "before the event")

			tt.event(s, t)
			r.await(t, "first event")
			settle(t, p)
			r.mustHave(t, 1, "without Rearm")

			// What it was watched for still holds.
			must(t, p.Rearm(s.near))
			r.await(t, "after Rearm")
			settle(t, p)
			r.mustHave(t, 2, "after one Rearm")
		})
	}
}

func TestRearmedWatchWaitsForTheNextEvent(t *testing.T) {
	p, s, r := newPoller(t), newPair(t), newRecorder()
	must(t, p.Watch(s.near, r))
	s.send(t)
	r.await(t, "first byte")
	s.receive(t)
	must(t, p.Rearm(s.near))
	settle(t, p)
	r.mustHave(t, 1, "with nothing to read")
	s.send(t)
	r.await(t, "second byte")
}

func TestWatchCloseIgnoresBytes(t *testing.T) {
	p, s, r := newPoller(t), newPair(t), newRecorder()
	must(t, p.WatchClose(s.near, r))
	s.send(t)
	settle(t, p)
	r.mustHave(t, 0, "after bytes alone")
	s.finish(t)
	r.await(t, "end of the peer, behind bytes that nobody has read")
}

// A socket that is reset has neither bytes nor an orderly end.
func TestEveryWatchSeesAReset(t *testing.T) {
	tests := []struct {
		name  string
		watch func(*Poller, int, Handler) error
	}{
		{"Watch", (*Poller).Watch},
		{"WatchClose", (*Poller).WatchClose},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, r := newPoller(t), newRecorder()
			near, far := tcpPair(t)
			must(t, tt.watch(p, near, handlerFunc(func() {
				p.Forget(near)
				unix.Close(near)
				r.Ready()
			})))
			must(t, unix.SetsockoptLinger(far, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
			unix.Close(far)
			r.await(t, "reset")
		})
	}
}

// tcpPair is a connection over loopback; whoever uses it closes it.
func tcpPair(t *testing.T) (near, far int) {
	t.Helper()
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(listener)
	must(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, unix.Listen(listener, 1))
	address, err := unix.Getsockname(listener)
	must(t, err)
	far, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Connect(far, address))
	near, _, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	must(t, err)
	return near, far
}

func TestWatchOfWhatCannotBeWatchedFails(t *testing.T) {
	p := newPoller(t)
	closed := newPair(t).near
	unix.Close(closed)
	if err := p.Watch(closed, newRecorder()); !errors.Is(err, unix.EBADF) {
		t.Errorf("watch a closed descriptor: got %v, want %v", err, unix.EBADF)
	}
	if len(p.handlers) != 0 {
		t.Errorf("handlers after a watch that failed: got %d, want 0", len(p.handlers))
	}
}

func TestRearmOfASocketThatIsNotWatchedFails(t *testing.T) {
	p, s := newPoller(t), newPair(t)
	if err := p.Rearm(s.near); !errors.Is(err, unix.ENOENT) {
		t.Errorf("never watched: got %v, want %v", err, unix.ENOENT)
	}
	must(t, p.Watch(s.near, newRecorder()))
	p.Forget(s.near)
	if err := p.Rearm(s.near); !errors.Is(err, unix.ENOENT) {
		t.Errorf("forgotten: got %v, want %v", err, unix.ENOENT)
	}
}

func TestForgottenSocketIsSilent(t *testing.T) {
	p, s, r := newPoller(t), newPair(t), newRecorder()
	must(t, p.Watch(s.near, r))
	p.Forget(s.near)
	s.send(t)
	settle(t, p)
	r.mustHave(t, 0, "after Forget")
}

// Two sockets are found ready by one look. The handler of the first closes the second, whose number goes to a third at
// once: what was found is not the third's.
func TestEventOfAClosedSocketIsNotItsSuccessors(t *testing.T) {
	p := newPoller(t)
	release := holdThread(t, p)

	first, second := newPair(t), newPair(t)
	successor, r := newPair(t), newRecorder()
	replaced := make(chan struct{}, 2)
	var calls atomic.Int32
	replace := func(other int) Handler {
		return handlerFunc(func() {
			calls.Add(1)
			p.Forget(other)
			// Closes the other and gives its number to the successor, in one step.
			err := unix.Dup3(successor.near, other, unix.O_CLOEXEC)
			if err == nil {
				err = p.Watch(other, r)
			}
			if err != nil {
				t.Errorf("replace socket: %v", err)
			}
			replaced <- struct{}{}
		})
	}
	must(t, p.Watch(first.near, replace(second.near)))
	must(t, p.Watch(second.near, replace(first.near)))
	first.send(t)
	second.send(t)

	release()
	await(t, replaced, "first of the two")
	settle(t, p)
	if got := calls.Load(); got != 1 {
		t.Errorf("handlers called: got %d, want 1: one closes the other", got)
	}
	r.mustHave(t, 0, "of a socket with nothing to read")
	successor.send(t)
	r.await(t, "byte for the successor")
}

// holdThread keeps the poller's thread in a handler until release is called: what becomes ready meanwhile is found by one look.
func holdThread(t *testing.T, p *Poller) (release func()) {
	t.Helper()
	s, busy, end := newPair(t), make(chan struct{}, 1), make(chan struct{})
	release = sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	must(t, p.Watch(s.near, handlerFunc(func() {
		busy <- struct{}{}
		<-end
	})))
	s.send(t)
	await(t, busy, "thread of the poller")
	return release
}

func TestMoreSocketsThanOneLookFinds(t *testing.T) {
	p := newPoller(t)
	release := holdThread(t, p)
	recorders := make([]*recorder, 300)
	for i := range recorders {
		s := newPair(t)
		recorders[i] = newRecorder()
		must(t, p.Watch(s.near, recorders[i]))
		s.send(t)
	}
	release()
	for _, r := range recorders {
		r.await(t, "one of many")
	}
	settle(t, p)
	for _, r := range recorders {
		r.mustHave(t, 1, "of one of many")
	}
}

func TestCloseEndsTheGoroutineAndKeepsTheSockets(t *testing.T) {
	s, r := newPair(t), newRecorder()
	before := tcptest.Descriptors(t)
	p, err := New()
	must(t, err)
	must(t, p.Watch(s.near, r))
	for range 2 {
		if err := p.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	}
	if after := tcptest.Descriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
	s.send(t)
	s.receive(t)
	r.mustHave(t, 0, "after Close")
}

func TestCloseWaitsForTheHandler(t *testing.T) {
	p, err := New()
	must(t, err)
	s, busy, closed := newPair(t), make(chan struct{}), make(chan struct{})
	must(t, p.Watch(s.near, handlerFunc(func() {
		close(busy)
		select {
		case <-closed:
			t.Error("Close has returned while a handler ran")
		case <-time.After(tooEarly):
		}
	})))
	s.send(t)
	await(t, busy, "handler")
	must(t, p.Close())
	close(closed)
}
