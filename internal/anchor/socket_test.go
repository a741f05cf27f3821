// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	s := newSocket(fd, testVIP, addrPort(sa))
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
	if err := next(t, reading, "read that waits"); err == nil {
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
