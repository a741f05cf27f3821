// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/shares"

	"github.com/xlb-project/xlb/test/await"
)

// newSocketPair is an anchor's socket and the descriptor of its peer.
func newSocketPair(t *testing.T) (*socket, net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	peer, err := net.DialTimeout("tcp4", l.Addr().String(), patience)
	must(t, err)
	t.Cleanup(func() { peer.Close() })
	file, err := l.(*net.TCPListener).File()
	must(t, err)
	defer file.Close()
	fd, sa, err := unix.Accept4(int(file.Fd()), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	must(t, err)
	s := newSocket(fd, testVIP, addrPort(sa), shares.Path{1}, testListener)
	t.Cleanup(func() { _ = s.release() })
	return s, peer
}

func TestCloseOfASocketEndsItsUseAlone(t *testing.T) {
	t.Parallel()
	s, peer := newSocketPair(t)
	reading := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		reading <- err
	}()
	// Time for the read to wait; one that comes later fails as well.
	for range 1000 {
		runtime.Gosched()
	}
	must(t, s.Close())
	if err := await.Next(t, reading, "read that waits"); err == nil {
		t.Error("a read that waits ends without an error")
	}
	for name, use := range map[string]func() error{
		"read":               func() error { _, err := s.Read(make([]byte, 1)); return err },
		"write":              func() error { _, err := s.Write([]byte("x")); return err },
		"close":              s.Close,
		"set deadline":       func() error { return s.SetDeadline(time.Time{}) },
		"set read deadline":  func() error { return s.SetReadDeadline(time.Time{}) },
		"set write deadline": func() error { return s.SetWriteDeadline(time.Time{}) },
	} {
		if err := use(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after close: got %v, want %v", name, err, net.ErrClosed)
		}
	}
	// The peer learns of the end when the descriptor closes.
	must(t, peer.SetReadDeadline(time.Unix(1, 0)))
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("peer after close: got %v, want an open connection", err)
	}
	must(t, s.release())
	must(t, peer.SetReadDeadline(deadline()))
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("peer after release: got %v, want %v", err, io.EOF)
	}
}

func TestSocketKeepsDeadlines(t *testing.T) {
	t.Parallel()
	s, peer := newSocketPair(t)
	must(t, s.SetReadDeadline(time.Unix(1, 0)))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	must(t, s.SetWriteDeadline(time.Unix(1, 0)))
	if _, err := s.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	must(t, s.SetDeadline(time.Time{}))
	_, err := peer.Write([]byte("x"))
	must(t, err)
	if n, err := s.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read without a deadline: got %d bytes, %v, want 1", n, err)
	}
}

func TestSocketEndsItsSendingSide(t *testing.T) {
	t.Parallel()
	s, peer := newSocketPair(t)
	must(t, s.CloseWrite())
	must(t, peer.SetReadDeadline(deadline()))
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("peer: got %v, want %v", err, io.EOF)
	}
	_, err := peer.Write([]byte("x"))
	must(t, err)
	if n, err := s.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read: got %d bytes, %v, want 1", n, err)
	}
}

func TestSocketThatDoesNotLingerResets(t *testing.T) {
	t.Parallel()
	s, peer := newSocketPair(t)
	must(t, s.SetLinger(0))
	must(t, s.release())
	must(t, peer.SetReadDeadline(deadline()))
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("peer: got %v, want %v", err, unix.ECONNRESET)
	}
}

// A signal that is pending hides what lies behind an urgent byte.
func TestSocketReadsBehindAnUrgentByteDespiteSignals(t *testing.T) {
	t.Parallel()
	s, peer := newSocketPair(t)
	raw, err := peer.(*net.TCPConn).SyscallConn()
	must(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer interrupt(unix.Getpid(), unix.Gettid())()
	const sent = "GET"
	for range 2000 {
		var urgent error
		must(t, raw.Control(func(fd uintptr) { urgent = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) }))
		must(t, urgent)
		_, err := peer.Write([]byte(sent))
		must(t, err)
		awaitReadable(t, s.fd)
		got := make([]byte, len(sent))
		if n, err := receiveNow(s.fd, got, 0); err != nil || string(got[:n]) != sent {
			t.Fatalf("receive what is there: got %q, %v, want %q", got[:n], err, sent)
		}
	}
}

func awaitReadable(t *testing.T, fd int) {
	t.Helper()
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		must(t, err)
		if fds[0].Revents&unix.POLLIN == 0 {
			t.Fatal("nothing arrives")
		}
		return
	}
}

// interrupt sends the signal of the Go runtime to a thread, again and again, until the function that it returns has been called.
func interrupt(process, thread int) (stop func()) {
	var done sync.WaitGroup
	over := make(chan struct{})
	done.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(process, thread, unix.SIGURG)
			}
		}
	})
	return func() {
		close(over)
		done.Wait()
	}
}
