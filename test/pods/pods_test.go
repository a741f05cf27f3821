// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var (
	service  = netip.MustParseAddrPort("127.80.0.1:80")
	loopback = netip.MustParseAddrPort("127.0.0.1:8080")
)

// Without a balancer no attempt to connect succeeds.
func TestAPodThatIsNotServedFails(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes int
	}{{"threads", 0}, {"processes", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			const count = 5
			got := Churn(t.Context(), ChurnSpec{
				Service: service, Server: loopback, Count: count, AtOnce: 2, Life: time.Millisecond, Requests: 1, Processes: tt.processes, Patience: time.Millisecond,
			})
			if got.Joined != 0 || got.Failed != count || got.Requests != 0 || got.Peak < 1 || got.Peak > 2 {
				t.Errorf("got %+v, want %d that failed, two at once at most", got, count)
			}
			for _, failure := range got.Failures {
				if !strings.Contains(failure, errNotServed.Error()) {
					t.Errorf("a pod failed of something else: %s", failure)
				}
			}
		})
	}
}

// A pod whose service address leads to its server is served; one that leads to another server fails.
func TestAPodIsServedByItsOwnServerAlone(t *testing.T) {
	got := Churn(t.Context(), ChurnSpec{Service: loopback, Server: loopback, Count: 4, AtOnce: 4, Requests: 3, Processes: 2, Patience: time.Minute})
	if got.Joined != 4 || got.Failed != 0 || got.Requests != 12 || got.Slowest < got.Median {
		t.Errorf("got %+v, want 4 that were served, with 12 requests", got)
	}
	s, err := serve("another", netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	conn, err := net.Dial("tcp", s.listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := newClient(conn)
	if err := c.ask("host", "another"); err != nil {
		t.Error(err)
	}
	if err := c.ask("host", "own"); err == nil {
		t.Error("the answer of another server was taken")
	}
}

// Pods that stay each ask over one connection, more than once if Rounds says so.
func TestPodsThatStayAskAndHangUp(t *testing.T) {
	c, err := NewCrowd(CrowdSpec{Service: loopback, Server: loopback, Ports: 2, Count: 3, Hosts: []string{"a", "b"}, Rounds: 2, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Ask()
	for _, r := range c.pods {
		if r.client == nil {
			t.Errorf("%s has no connection", r.identity)
		}
	}
	c.HangUp()
	if err := errors.Join(err, c.Ask(), c.Close()); err != nil {
		t.Error(err)
	}
}
