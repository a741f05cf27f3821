// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/suite"
)

// newNamedRig is a daemon that answers each message with its name.
func newNamedRig(t *testing.T, name string) *rig {
	t.Helper()
	return newRig(t, setup{serve: func(_ context.Context, conn net.Conn, _ Session) Result {
		n, err := conn.Read(make([]byte, 64))
		if err != nil {
			return Result{}
		}
		written, err := conn.Write([]byte(name))
		return Result{Read: uint64(n), Written: uint64(written), Keep: err == nil}
	}})
}

// bindAt takes an address that another rig may have.
func (r *rig) bindAt(address string) *Bound {
	r.t.Helper()
	b, err := r.s.Bind(netip.MustParseAddrPort(address), BoundTo{Listener: testListener})
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, b.Close()) })
	return b
}

// mustAnswer demands that a client is served by the rig of that name.
func (c *client) mustAnswer(name string) {
	c.t.Helper()
	c.send("who is there")
	c.mustReceive(name)
}

func mustBeRefused(t *testing.T, address string) {
	t.Helper()
	if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
}

func TestSharedSocketOutlivesItsFirstDaemon(t *testing.T) {
	old, next := newNamedRig(t, "old"), newNamedRig(t, "new")
	first, address := old.bind(BoundTo{Listener: testListener})
	must(t, first.Listen())
	second := next.bindAt(address)
	kept := old.reach(address)
	kept.mustAnswer("old") // the new one has not begun
	must(t, first.Close())
	waiting := old.reach(address)
	waiting.send("who is there")
	must(t, second.Listen())
	waiting.mustReceive("new")
	kept.mustAnswer("old")
	old.reach(address).mustAnswer("new")
	must(t, second.Close())
	mustBeRefused(t, address)
}

func TestSharedSocketKeepsThoseThatWait(t *testing.T) {
	old, next := newNamedRig(t, "old"), newNamedRig(t, "new")
	first, address := old.bind(BoundTo{Listener: testListener})
	must(t, unix.Listen(first.fd, backlog)) // nobody accepts
	waiting := old.reach(address)
	waiting.send("who is there")
	second := next.bindAt(address)
	must(t, first.Close())
	must(t, second.Listen())
	waiting.mustReceive("new")
}

// A daemon that leaves refuses further connections at its socket, which is that of the other daemon too.
func TestSharedSocketGoesOnWhereItsFirstDaemonLacksDescriptors(t *testing.T) {
	old, next := newNamedRig(t, "old"), newNamedRig(t, "new")
	first, address := old.bind(BoundTo{Listener: testListener})
	must(t, next.bindAt(address).Listen())
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	// The descriptor of a socket that is closed cannot be used either.
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
	if err := first.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	conn, err := net.DialTimeout("tcp", address, patience)
	must(t, err)
	defer conn.Close()
	(&client{TCPConn: conn.(*net.TCPConn), t: t}).mustAnswer("new")
}

func TestSharedSocketStaysWithTheFirstDaemon(t *testing.T) {
	old, next := newNamedRig(t, "old"), newNamedRig(t, "new")
	first, address := old.bind(BoundTo{Listener: testListener})
	must(t, first.Listen())
	must(t, next.bindAt(address).Close())
	old.reach(address).mustAnswer("old")
	must(t, first.Close())
	mustBeRefused(t, address)
}

func TestSocketIsSharedByMoreThanTwo(t *testing.T) {
	one, two, three := newNamedRig(t, "one"), newNamedRig(t, "two"), newNamedRig(t, "three")
	first, address := one.bind(BoundTo{Listener: testListener})
	second := two.bindAt(address)
	must(t, first.Close())
	third := three.bindAt(address)
	must(t, third.Listen())
	must(t, second.Close())
	three.reach(address).mustAnswer("three")
	must(t, third.Close())
	mustBeRefused(t, address)
	must(t, one.bindAt(address).Listen())
	one.reach(address).mustAnswer("one")
}

// asOtherUser runs f on a thread of another user, which ends with it.
func asOtherUser(t *testing.T, f func()) {
	t.Helper()
	const nobody, keep = 65534, ^uintptr(0)
	done := make(chan unix.Errno, 1)
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, nobody, keep)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}

func TestSocketIsNotSharedWithOtherUsers(t *testing.T) {
	r := newNamedRig(t, "one")
	b, _ := r.bind(BoundTo{Listener: testListener})
	var err error
	asOtherUser(t, func() {
		var conn int
		if conn, err = knock(b.share.name); err != nil {
			return
		}
		_, _, err = receive(conn)
		unix.Close(conn)
	})
	if !errors.Is(err, errNoSockets) {
		t.Errorf("got %v, want %v", err, errNoSockets)
	}
}

func TestSocketIsNotTakenFromOtherUsers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().(*net.TCPAddr).AddrPort()
	must(t, l.Close())
	var squatter net.Listener
	asOtherUser(t, func() { squatter, err = net.Listen("unix", shareName(address)) })
	must(t, err)
	defer squatter.Close()
	r := newNamedRig(t, "one")
	must(t, r.bindAt(address.String()).Listen())
	r.reach(address.String()).mustAnswer("one")
}

// The Go runtime interrupts goroutines by signals, at any time.
func TestSocketIsTakenThroughSignals(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pair[0])
	wait := unix.NsecToTimeval(int64(patience))
	must(t, unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	thread, received := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		bound, name, err := receive(pair[0])
		if err == nil {
			err = errors.Join(unix.Close(bound), unix.Close(name))
		}
		received <- err
	}()
	waiting := <-thread
	for range 20 {
		must(t, unix.Tgkill(unix.Getpid(), waiting, unix.SIGURG))
		time.Sleep(time.Millisecond)
	}
	must(t, unix.Sendmsg(pair[1], []byte{shareVersion}, unix.UnixRights(pair[1], pair[1]), nil, 0))
	must(t, await.Next(t, received, "sockets"))
	must(t, unix.Close(pair[1]))
}

// A daemon that starts in the last moments of the other one finds its socket, or an address that is free in a moment.
func TestAddressOfADaemonThatLeavesIsTaken(t *testing.T) {
	old, next := newNamedRig(t, "old"), newNamedRig(t, "new")
	b, address := old.bind(BoundTo{Listener: testListener})
	for range 200 {
		closed := make(chan error, 1)
		go func() { closed <- b.Close() }()
		successor := next.bindAt(address)
		must(t, <-closed)
		b, old, next = successor, next, old
	}
	must(t, b.Listen())
	old.reach(address).mustAnswer("old")
}

// The kernel closes the sockets of a process that has been killed one after the other: without a word, its address is free in a moment.
func TestAddressIsAskedForAgain(t *testing.T) {
	tests := []struct {
		name        string
		inUse, left int
		attempts    int
		want        error
	}{
		{"free", 0, 0, 1, nil},
		{"left", 3, 3, 4, nil},
		{"left, and closed behind the look", 1, 0, 2, nil},
		{"somebody else's", 9, 0, 2, unix.EADDRINUSE},
		{"left, and somebody else's", 9, 3, 5, unix.EADDRINUSE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attempts, looks := 0, 0
			err := untilFree(func() error {
				if attempts++; attempts <= tt.inUse {
					return unix.EADDRINUSE
				}
				return nil
			}, func() bool { looks++; return looks <= tt.left })
			if !errors.Is(err, tt.want) || attempts != tt.attempts {
				t.Errorf("got %v after %d attempts, want %v after %d", err, attempts, tt.want, tt.attempts)
			}
		})
	}
}

func TestAddressOfAnotherProgramIsNotWaitedFor(t *testing.T) {
	suite.Long(t, suite.Clock)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	r := newNamedRig(t, "one")
	await.OneOfThree(t, "the refusal", func() (difference string) {
		began := time.Now()
		_, err := r.s.Bind(l.Addr().(*net.TCPAddr).AddrPort(), BoundTo{Listener: testListener})
		took := time.Since(began)
		if !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("got %v, want %v", err, unix.EADDRINUSE)
		}
		if took > leavingTime/2 {
			return fmt.Sprintf("came after %v, want at once", took)
		}
		return ""
	})
}
