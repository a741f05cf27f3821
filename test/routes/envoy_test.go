// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// noRoute is what Envoy answers where no route matches, refused where it does
// not take the request at all, redirected where it wants another path.
const (
	noRoute    = -1
	refused    = -2
	redirected = -3
)

const grpcUnimplemented = "12"

// envoy is a running Envoy with one listener for each table.
type envoy struct {
	addresses []string
	conns     []*conn
	ended     chan struct{}
}

type conn struct {
	net.Conn
	reader *bufio.Reader
}

// envoyBinary finds the real Envoy: $XLB_ENVOY, or envoy on PATH. Without one the
// test is skipped, unless $XLB_REQUIRE_ENVOY is set.
func envoyBinary(t testing.TB) string {
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

// startEnvoy runs Envoy with the tables until the test ends. Each route answers
// with its number.
func startEnvoy(t testing.TB, tables []*Table) *envoy {
	t.Helper()
	addresses := freeAddresses(t, len(tables))
	var listeners []any
	for i, address := range addresses {
		listeners = append(listeners, tables[i].Listener(fmt.Sprintf("table-%d", i), address, directResponse))
	}
	bootstrap, err := json.Marshal(Object{"static_resources": Object{"listeners": listeners}})
	if err != nil {
		t.Fatal(err)
	}
	return launchEnvoy(t, bootstrap, addresses)
}

// launchEnvoy runs Envoy with that configuration, which listens at these addresses.
func launchEnvoy(t testing.TB, bootstrap []byte, addresses []netip.AddrPort) *envoy {
	t.Helper()
	binary := envoyBinary(t)
	e := &envoy{conns: make([]*conn, len(addresses)), ended: make(chan struct{})}
	for _, a := range addresses {
		e.addresses = append(e.addresses, a.String())
	}
	path := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "-c", path, "--disable-hot-restart", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // killed: its status says nothing
		close(e.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-e.ended
	})
	return e
}

func directResponse(route int) Object {
	return Object{
		"direct_response": Object{"status": http.StatusOK},
		"response_headers_to_add": []any{Object{"header": Object{
			"key": "x-route", "value": fmt.Sprint(route),
		}}},
	}
}

// freeAddresses returns different addresses, all with Port, that nobody listens at.
func freeAddresses(t testing.TB, n int) []netip.AddrPort {
	t.Helper()
	var addresses []netip.AddrPort
	for tries := 0; len(addresses) < n; tries++ {
		if tries > 20*n {
			t.Fatalf("no %d addresses of 127.0.0.0/8 with a free port %d", n, Port)
		}
		host := netip.AddrFrom4([4]byte{127, byte(100 + rand.IntN(100)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
		address := netip.AddrPortFrom(host, Port)
		l, err := net.Listen("tcp", address.String())
		if err != nil {
			continue
		}
		defer l.Close() // all at the end: no address is given twice
		addresses = append(addresses, address)
	}
	return addresses
}

// ask returns the number of the route that Envoy takes in that table, or noRoute or refused.
func (e *envoy) ask(t testing.TB, table int, r *Request) int {
	t.Helper()
	c := e.conns[table]
	if c == nil {
		c = e.dial(t, e.addresses[table])
		e.conns[table] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(r.Bytes()); err != nil {
		t.Fatalf("%q: %v", r.Bytes(), err)
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: r.Method})
	if err != nil {
		t.Fatalf("%q: %v", r.Bytes(), err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatalf("%q: %v", r.Bytes(), err)
	}
	if response.Close {
		_ = c.Close()
		e.conns[table] = nil
	}
	route := noRoute
	isNumbered := response.Header.Get("X-Route") != ""
	switch {
	case response.StatusCode == http.StatusBadRequest:
		return refused
	case response.StatusCode == http.StatusTemporaryRedirect && !isNumbered:
		return redirected
	case response.StatusCode == http.StatusNotFound:
	case !isNumbered && response.Header.Get("Grpc-Status") == grpcUnimplemented: // how Envoy tells a gRPC client of 404
	case !isNumbered && response.Header.Get("Grpc-Status") != "": // of 400, and of 307
		return refused
	case response.StatusCode != http.StatusOK:
		t.Fatalf("%q: status %d", r.Bytes(), response.StatusCode)
	default:
		if _, err := fmt.Sscan(response.Header.Get("X-Route"), &route); err != nil {
			t.Fatalf("%q: x-route: %v", r.Bytes(), err)
		}
	}
	return route
}

// dial retries until Envoy listens.
func (e *envoy) dial(t testing.TB, address string) *conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			t.Cleanup(func() {
				if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
					t.Error(err)
				}
			})
			return &conn{c, bufio.NewReader(c)}
		}
		select {
		case <-e.ended:
			t.Fatal("Envoy has ended: its own message says why")
		case <-ctx.Done():
			t.Fatalf("Envoy does not listen at %s: %v", address, err)
		case <-retry.C:
		}
	}
}
