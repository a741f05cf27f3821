// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// envoyBinary finds the real Envoy: $XLB_ENVOY, or envoy on PATH. Without one the
// test is skipped, unless $XLB_REQUIRE_ENVOY is set.
func envoyBinary(t *testing.T) string {
	t.Helper()
	name := os.Getenv("XLB_ENVOY")
	if name == "" {
		name = "envoy"
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("XLB_REQUIRE_ENVOY") != "":
		t.Fatalf("XLB_REQUIRE_ENVOY is set: %v", err)
	default:
		t.Skipf("needs a real Envoy (XLB_ENVOY or PATH): %v", err)
	}
	return ""
}

// startEnvoy runs Envoy with one thread, so that there is one round robin, until the test ends.
func startEnvoy(t *testing.T, config object) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, envoyBinary(t), "-c", path, "--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed: its status says nothing
	})
}

// servers answers at so many addresses with the address, after a delay.
func servers(t *testing.T, n int, delay time.Duration) []netip.AddrPort {
	t.Helper()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(delay)
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			_, _ = io.WriteString(w, local.String())
		}),
	}
	t.Cleanup(func() { _ = server.Close() })
	var addresses []netip.AddrPort
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, netip.MustParseAddrPort(l.Addr().String()))
		go func() { _ = server.Serve(l) }()
	}
	return addresses
}

// freeAddress returns an address that nobody listens at.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// failed stands for a request that got no endpoint.
var failed netip.AddrPort

// ask sends requests one after the other and counts who answers.
func ask(t *testing.T, client *http.Client, listener netip.AddrPort, cluster string, requests int) map[netip.AddrPort]int {
	t.Helper()
	counts := map[netip.AddrPort]int{}
	for range requests {
		response, err := client.Get(fmt.Sprintf("http://%s/%s", listener, cluster))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			counts[netip.MustParseAddrPort(string(body))]++
		case http.StatusServiceUnavailable:
			counts[failed]++
		default:
			t.Fatalf("%s: %s: %s", cluster, response.Status, body)
		}
	}
	return counts
}

// await returns when Envoy listens.
func await(t *testing.T, listener netip.AddrPort) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", listener.String())
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Envoy does not listen at %s: %v", listener, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
