// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/envoytest"
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
	process   *envoytest.Process
	addresses []netip.AddrPort
	conns     []*envoytest.Conn
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
	return &envoy{process: envoytest.Start(t, bootstrap), addresses: addresses, conns: make([]*envoytest.Conn, len(addresses))}
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
		c = e.process.Dial(t, e.addresses[table])
		e.conns[table] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(r.Bytes()); err != nil {
		t.Fatalf("%q: %v", r.Bytes(), err)
	}
	response, err := http.ReadResponse(c.Reader, &http.Request{Method: r.Method})
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
