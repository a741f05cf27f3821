// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// startHolders runs n servers that answer with their address at once, and end the answer with the test.
func startHolders(t testing.TB, n int) []netip.AddrPort {
	t.Helper()
	over := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()+"\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})}
	t.Cleanup(func() {
		close(over)
		_ = server.Close()
	})
	addresses := make([]netip.AddrPort, n)
	for i := range addresses {
		l := listen(t)
		addresses[i] = netip.MustParseAddrPort(l.Addr().String())
		go func() { _ = server.Serve(l) }() // its end is the test's
	}
	return addresses
}

// begin sends a request over a connection of its own, which the test's end closes, and returns the endpoint that has begun to answer.
func (p *peer) begin(request string) string {
	p.t.Helper()
	c := p.process.Dial(p.t, p.addresses[0])
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	var endpoint string
	if _, err := fmt.Fscanln(answer.Body, &endpoint); err != nil {
		p.t.Fatalf("%q: %v", request, err)
	}
	return endpoint
}

// boundedCases are clusters whose endpoints have bounds: by common_lb_config, or without a factor here by what the policy says.
var boundedCases = []struct {
	name    string
	weights []int
	factor  int
	with    object
}{
	{"a ring", []int{1, 1, 1, 1, 1}, 120, ringHash(object{})},
	{"a ring of weights", []int{1, 5, 2, 9}, 150, ringHash(object{})},
	{"maglev", []int{1, 1, 1}, 100, maglevOf(object{"table_size": 503})},
	{"maglev of weights", []int{3, 1, 1, 6}, 130, maglevOf(object{"table_size": 503})},
	{"a ring by type", []int{1, 5, 2, 9}, 0, ofType("ring_hash.v3.RingHash", object{"consistent_hashing_lb_config": object{"hash_balance_factor": 140}})},
	{"a ring by type, of the older field", []int{1, 1, 2, 1}, 0, ofType("ring_hash.v3.RingHash", object{"hash_balance_factor": 120})},
	{"maglev by type", []int{1, 2, 1}, 0, ofType("maglev.v3.Maglev", object{"table_size": 503, "consistent_hashing_lb_config": object{"hash_balance_factor": 110}})},
}

// Requests that do not end, one behind the other: where a host has its share, the next in Envoy's order takes over.
func TestBoundedLoadsGoWhereEnvoysGo(t *testing.T) {
	const requests = 40
	holders := startHolders(t, 5)
	listener := freeAddress(t)
	var routes, clusters []any
	for i, c := range boundedCases {
		var hosts []host
		for j, weight := range c.weights {
			hosts = append(hosts, host{holders[j], weight})
		}
		name := number("c", i)
		one := cluster(name, hosts, c.with)
		if c.factor > 0 {
			one["common_lb_config"] = object{"consistent_hashing_lb_config": object{"hash_balance_factor": c.factor}}
		}
		clusters = append(clusters, one)
		routes = append(routes, routeTo(name, byHeader("x-key")))
	}
	bootstrap := bootstrapOf([]any{listenerAt(listener, routes...)}, clusters)
	envoy, xlb := startEnvoy(t, bootstrap, listener), startXLB(t, parse(t, bootstrap))
	for i, c := range boundedCases {
		t.Run(c.name, func(t *testing.T) {
			var want, got []string
			for n := range requests {
				// A few keys: each has an order of its own.
				request := get("/"+number("c", i)+"/", fmt.Sprintf("x-key: %d", n%3))
				want, got = append(want, envoy.begin(request)), append(got, xlb.begin(request))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("endpoints of %d requests (-Envoy +XLB):\n%s", requests, diff)
			}
			if used := distinct(want); used < 2 {
				t.Errorf("all requests went to %d endpoints: nothing was bounded", used)
			}
		})
	}
}

func distinct(list []string) int {
	seen := map[string]bool{}
	for _, s := range list {
		seen[s] = true
	}
	return len(seen)
}
