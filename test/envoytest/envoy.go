// SPDX-License-Identifier: Apache-2.0

// Package envoytest runs a real Envoy for tests that compare XLB with it. $XLB_ENVOY names the binary, or envoy on PATH. Without one such tests
// skip, unless $XLB_REQUIRE_ENVOY is set.
package envoytest

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// startPatience is how long Envoy may take until it listens.
const startPatience = 60 * time.Second

// Binary finds Envoy.
func Binary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("XLB_ENVOY")
	if name == "" {
		name = "envoy"
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("XLB_REQUIRE_ENVOY") != "":
		t.Fatalf("XLB_REQUIRE_ENVOY is set: %v", err)
	default:
		t.Skipf("needs a real Envoy (XLB_ENVOY or PATH): %v", err)
	}
	return path
}

// Process is a running Envoy.
type Process struct {
	// ended is closed when it has.
	ended chan struct{}
}

// Start runs Envoy with a bootstrap in JSON until the test ends.
func Start(t testing.TB, bootstrap []byte) *Process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	return StartFile(t, path)
}

// StartFile runs Envoy with a configuration file until the test ends. It has one thread, so that turns and counts are one.
func StartFile(t testing.TB, path string) *Process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, Binary(t), "-c", path, "--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	p := &Process{ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // killed: its status says nothing
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// Conn is a connection with its buffered reader.
type Conn struct {
	net.Conn
	Reader *bufio.Reader
}

// Dial returns a connection to a listener as soon as it listens, open until the test ends. The listener is Envoy's, or where p is nil one of
// this process.
func (p *Process) Dial(t testing.TB, address netip.AddrPort) *Conn {
	t.Helper()
	var ended <-chan struct{}
	if p != nil {
		ended = p.ended
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
		if err == nil {
			t.Cleanup(func() { _ = c.Close() }) // closed already, perhaps
			return &Conn{c, bufio.NewReader(c)}
		}
		select {
		case <-ended:
			t.Fatal("Envoy has ended: its own message says why")
		case <-ctx.Done():
			t.Fatalf("Envoy does not listen at %s: %v", address, err)
		case <-retry.C:
		}
	}
}

// FreeAddress returns a loopback address that nobody listens at. Its port is below those that the kernel gives to connections: it stays free,
// and no connection to it can meet itself.
func FreeAddress(t testing.TB) netip.AddrPort {
	t.Helper()
	for {
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(10_000+rand.IntN(22_000)))
		l, err := net.Listen("tcp", address.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // it was only to see whether it can be had
		return address
	}
}
