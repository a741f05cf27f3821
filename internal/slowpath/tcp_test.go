// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/test/await"
)

// tcpFront is a front without HTTP.
func tcpFront(t *testing.T, serve func(net.Conn), options model.TCPProxy) (*front, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			serve(conn)
		}
	}()
	options.Clusters = []model.WeightedCluster{{Name: "c", Weight: 1}}
	endpoint := listener.Addr().(*net.TCPAddr).AddrPort()
	f := newFront(t, []netip.AddrPort{endpoint}, func(c *Config, _ *model.Route) {
		activeOf(c).tcp = func(string) *model.TCPProxy { return &options }
	})
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return f, conn
}

func TestPlainConnectionPassesEndsOnBySide(t *testing.T) {
	got := make(chan string, 1)
	f, conn := tcpFront(t, func(upstream net.Conn) {
		defer upstream.Close()
		_, _ = io.WriteString(upstream, "hello")
		_ = upstream.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(upstream)
		got <- string(b)
	}, model.TCPProxy{})
	if b, err := io.ReadAll(conn); err != nil || string(b) != "hello" {
		t.Errorf("client got %q, %v", b, err)
	}
	// The other direction is open still.
	if _, err := io.WriteString(conn, "and more"); err != nil {
		t.Error(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	if b := <-got; b != "and more" {
		t.Errorf("endpoint got %q", b)
	}
	requireReleased(t, f)
}

func TestPlainConnectionPassesAResetOn(t *testing.T) {
	f, conn := tcpFront(t, func(upstream net.Conn) {
		_, _ = upstream.Read(make([]byte, 1))
		conns.Abort(upstream)
	}, model.TCPProxy{})
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after the endpoint's reset: %v", err)
	}
	requireReleased(t, f)
}

func TestPlainConnectionThatStandsStillEnds(t *testing.T) {
	const limit = time.Second
	f, conn := tcpFront(t, func(upstream net.Conn) { _, _ = io.Copy(io.Discard, upstream) }, model.TCPProxy{IdleTimeout: limit})
	time.Sleep(limit / 20)
	last := time.Now()
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || time.Since(last) < limit {
		t.Errorf("read: %v %v after the last byte, want an end after %v", err, time.Since(last), limit)
	}
	requireReleased(t, f)
}

// requireReleased waits until the endpoint is not in use any more.
func requireReleased(t *testing.T, f *front) {
	t.Helper()
	await.Quiet(t, func() string {
		picked, outcomes := f.balancer.seen()
		if picked == 1 && len(outcomes) == 1 {
			return ""
		}
		return fmt.Sprintf("endpoints taken: %d, given back: %d, want 1 each", picked, len(outcomes))
	})
}
