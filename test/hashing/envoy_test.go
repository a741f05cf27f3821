// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/envoytest"
)

// object is a message of Envoy's API in JSON.
type object = map[string]any

// peer is a proxy that serves listeners at addresses.
type peer struct {
	t         testing.TB
	addresses []netip.AddrPort
	// process is nil for a proxy of this process.
	process *envoytest.Process
	conns   map[int]*envoytest.Conn
}

// startEnvoy runs Envoy with a configuration until the test ends.
func startEnvoy(t testing.TB, bootstrap object, addresses ...netip.AddrPort) *peer {
	t.Helper()
	return &peer{t: t, process: envoytest.Start(t, marshal(t, bootstrap)), addresses: addresses, conns: map[int]*envoytest.Conn{}}
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
		c = p.process.Dial(p.t, p.addresses[listener])
		p.conns[listener] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	answer, err := http.ReadResponse(c.Reader, nil)
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

// get is a request for a path with these header lines.
func get(path string, lines ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + strings.Join(append(lines, ""), "\r\n")
}
