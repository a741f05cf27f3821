// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
)

// patience bounds every wait of the tests.
const patience = await.Patience

// pair is two uses of one connection, and the endpoint's end of it.
func pair(t *testing.T) (receives, sends *Conn, endpoint *net.TCPConn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp4", l.Addr().String())
	must(t, err)
	accepted, err := l.Accept()
	must(t, err)
	f, err := conn.(*net.TCPConn).File()
	must(t, err)
	must(t, conn.Close())
	var e Ending
	receives, err = Dup(int(f.Fd()), &e)
	must(t, err)
	sends, err = Dup(int(f.Fd()), &e)
	must(t, err)
	must(t, f.Close())
	t.Cleanup(func() {
		receives.Close()
		sends.Close()
		accepted.Close()
	})
	return receives, sends, accepted.(*net.TCPConn)
}

// TCP tells of a reset once. Whoever sends may be the first to hear of it, and a tunnel would seem to end cleanly.
func TestResetThatASendHasFoundIsNoCleanEnd(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := pair(t)
	must(t, endpoint.SetLinger(0))
	must(t, endpoint.Close())
	if err := sendUntilRefused(t, sends); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("send to an endpoint that has reset: got %v, want %v", err, unix.ECONNRESET)
	}
	if n, err := receives.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("receive behind that: got %d bytes, %v, want %v", n, err, unix.ECONNRESET)
	}
}

// The sender closes what is of no more use, between the end that a receive has found and its question for the reason.
func TestResetIsNoCleanEndOnceTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := pair(t)
	must(t, endpoint.SetLinger(0))
	must(t, endpoint.Close())
	if err := sendUntilRefused(t, sends); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("send to an endpoint that has reset: got %v, want %v", err, unix.ECONNRESET)
	}
	must(t, receives.Close())
	if err := receives.end(); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("reason of an end: got %v, want %v", err, unix.ECONNRESET)
	}
}

// An endpoint that closes answers what still comes with a reset. Its own side has ended well all the same.
func TestCleanEndStaysCleanWhenASendIsRefused(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := pair(t)
	_, err := endpoint.Write([]byte("x"))
	must(t, err)
	must(t, endpoint.Close())
	b := make([]byte, 2)
	if n, err := io.ReadFull(receives, b[:1]); n != 1 || err != nil {
		t.Fatalf("receive: got %d bytes, %v", n, err)
	}
	if err := sendUntilRefused(t, sends); !errors.Is(err, unix.EPIPE) {
		t.Fatalf("send to an endpoint that has closed: got %v, want %v", err, unix.EPIPE)
	}
	if n, err := receives.Read(b); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("receive behind that: got %d bytes, %v, want the end", n, err)
	}
}

// A send that waits for room must not keep a receive from the end.
func TestEndIsSeenWhileASendWaits(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := pair(t)
	refused := make(chan error, 1)
	go func() { refused <- sendUntilRefused(t, sends) }()
	must(t, endpoint.CloseWrite())
	must(t, receives.SetReadDeadline(time.Now().Add(patience)))
	if n, err := receives.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("receive: got %d bytes, %v, want the end", n, err)
	}
	must(t, endpoint.Close())
	<-refused
}

func TestConnIsQuietUntilSomethingComes(t *testing.T) {
	t.Parallel()
	receives, _, endpoint := pair(t)
	if !receives.Quiet() {
		t.Error("an open connection without bytes is not quiet")
	}
	_, err := endpoint.Write([]byte("x"))
	must(t, err)
	await.Quiet(t, func() string {
		if receives.Quiet() {
			return "quiet with a byte to read"
		}
		return ""
	})
	must(t, receives.Close())
	if receives.Quiet() {
		t.Error("a connection that is closed is quiet")
	}
}

// sendUntilRefused sends until that fails.
func sendUntilRefused(t *testing.T, u *Conn) error {
	b := make([]byte, 1<<10)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err := u.Write(b); err != nil {
			return err
		}
	}
	t.Errorf("sends succeed after %s", patience)
	return nil
}

func TestOnlyTCPConnectionsAreUsed(t *testing.T) {
	t.Parallel()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := Dup(fds[0], &Ending{}); err == nil {
		t.Error("a UNIX socket was taken for a connection to an endpoint")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
