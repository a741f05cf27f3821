// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// upstreamPair is two uses of one connection, and the endpoint's end of it.
func upstreamPair(t *testing.T) (receives, sends *Upstream, endpoint *net.TCPConn) {
	t.Helper()
	s := newServer(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp4", s.address.String())
	must(t, err)
	f, err := conn.(*net.TCPConn).File()
	must(t, err)
	must(t, conn.Close())
	t.Cleanup(func() { f.Close() })
	i := &isock{fd: int(f.Fd())}
	receives, err = i.upstream()
	must(t, err)
	sends, err = i.upstream()
	must(t, err)
	t.Cleanup(func() {
		receives.Close()
		sends.Close()
	})
	return receives, sends, s.await(1)[0].(*net.TCPConn)
}

// TCP tells of a reset once. Whoever sends may be the first to hear of it, and a tunnel would seem to end cleanly.
func TestResetThatASendHasFoundIsNoCleanEnd(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := upstreamPair(t)
	must(t, endpoint.SetLinger(0))
	must(t, endpoint.Close())
	if err := sendUntilRefused(t, sends); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("send to an endpoint that has reset: got %v, want %v", err, unix.ECONNRESET)
	}
	if n, err := receives.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("receive behind that: got %d bytes, %v, want %v", n, err, unix.ECONNRESET)
	}
}

// An endpoint that closes answers what still comes with a reset. Its own side has ended well all the same.
func TestCleanEndStaysCleanWhenASendIsRefused(t *testing.T) {
	t.Parallel()
	receives, sends, endpoint := upstreamPair(t)
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
	receives, sends, endpoint := upstreamPair(t)
	refused := make(chan error, 1)
	go func() { refused <- sendUntilRefused(t, sends) }()
	must(t, endpoint.CloseWrite())
	mustEnd(t, receives)
	must(t, endpoint.Close())
	<-refused
}

func TestUpstreamIsQuietUntilSomethingComes(t *testing.T) {
	t.Parallel()
	receives, _, endpoint := upstreamPair(t)
	if !receives.Quiet() {
		t.Error("an open connection without bytes is not quiet")
	}
	_, err := endpoint.Write([]byte("x"))
	must(t, err)
	for end := time.Now().Add(patience); receives.Quiet(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("quiet with a byte to read")
		}
	}
	must(t, receives.Close())
	if receives.Quiet() {
		t.Error("a connection that is closed is quiet")
	}
}

// sendUntilRefused sends until that fails.
func sendUntilRefused(t *testing.T, u *Upstream) error {
	b := make([]byte, 1<<10)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err := u.Write(b); err != nil {
			return err
		}
	}
	t.Errorf("sends succeed after %s", patience)
	return nil
}
