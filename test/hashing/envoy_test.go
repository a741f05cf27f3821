// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// object is a message of Envoy's API in JSON.
type object = map[string]any

// peer is a proxy that serves listeners at addresses.
type peer struct {
	t         testing.TB
	addresses []netip.AddrPort
	// ended is closed when the proxy has, for a process.
	ended <-chan struct{}
	conns map[int]*conn
}

type conn struct {
	net.Conn
	reader *bufio.Reader
}

// envoyBinary skips the test where there is no Envoy.
func envoyBinary(t testing.TB) string {
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

// startEnvoy runs Envoy with a configuration until the test ends.
func startEnvoy(t testing.TB, bootstrap object, addresses ...netip.AddrPort) *peer {
	t.Helper()
	binary := envoyBinary(t)
	path := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(path, marshal(t, bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "-c", path, "--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed: its status says nothing
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &peer{t: t, addresses: addresses, ended: ended, conns: map[int]*conn{}}
}

func marshal(t testing.TB, message object) []byte {
	t.Helper()
	data, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ask sends a request, without the empty line at its end, to a listener and returns the answer with its body, which names the endpoint.
// Requests to one listener go over one connection for as long as that lasts.
func (p *peer) ask(listener int, request string) (answer *http.Response, endpoint string) {
	p.t.Helper()
	c := p.conns[listener]
	if c == nil {
		c = p.dial(p.addresses[listener].String())
		p.conns[listener] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	if answer.Close {
		_ = c.Close()
		delete(p.conns, listener)
	}
	return answer, string(body)
}

// dial waits until the proxy listens.
func (p *peer) dial(address string) *conn {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			p.t.Cleanup(func() { _ = c.Close() })
			return &conn{c, bufio.NewReader(c)}
		}
		select {
		case <-p.ended:
			p.t.Fatal("Envoy has ended: its own message says why")
		case <-ctx.Done():
			p.t.Fatalf("Envoy does not listen at %s: %v", address, err)
		case <-retry.C:
		}
	}
}

// get is a request for a path with these header lines.
func get(path string, lines ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(append(lines, ""), "\r\n")
}
