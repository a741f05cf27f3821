// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

func limited(b model.Breakers) frontOption {
	return func(c *Config, _ *model.Route) {
		c.Cluster = func(name string) *model.Cluster {
			return &model.Cluster{Name: name, ConnectTimeout: patience, Breakers: [2]*model.Breakers{&b}}
		}
	}
}

// gated answers each request when it is told to, and says when it has one. The test has to close answer before it ends.
func gated(t *testing.T) (serve func(net.Conn, *bufio.Reader), came chan string, answer chan bool) {
	t.Helper()
	came, answer = make(chan string, 10), make(chan bool)
	return func(conn net.Conn, r *bufio.Reader) {
		for head := readHeadOf(r); head != ""; head = readHeadOf(r) {
			came <- strings.Fields(head)[1]
			<-answer
			_, _ = io.WriteString(conn, ok2)
		}
	}, came, answer
}

func closing(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
}

func waitingAt(f *front, n int) func() bool {
	return func() bool {
		g := f.proxy.gates.of("c", model.PriorityDefault)
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == n
	}
}

func TestRequestsWaitForAConnectionInTheirOrder(t *testing.T) {
	serve, came, answer := gated(t)
	defer close(answer)
	f := newFront(t, list(rawEndpoint(t, serve)), limited(model.Breakers{MaxConnections: 1, MaxPending: 2, MaxRequests: 9}))
	answers := make(chan string, 3)
	for i, path := range []string{"/1", "/2", "/3"} {
		go func() { answers <- f.exchange(closing(path)) }()
		if i == 0 {
			<-came
			continue
		}
		eventually(t, path+" waits", waitingAt(f, i))
	}
	refused := f.exchange(closing("/4"))
	if !strings.HasPrefix(refused, "HTTP/1.1 503 ") || !strings.Contains(refused, "x-envoy-overloaded: true\r\n") ||
		!strings.HasSuffix(refused, "reset reason: overflow") {
		t.Errorf("more than may wait: got %q", refused)
	}
	for _, want := range []string{"/2", "/3"} {
		answer <- true
		if got := <-came; got != want {
			t.Errorf("passed: got %s, want %s", got, want)
		}
	}
	answer <- true
	for range 3 {
		if got := <-answers; !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("got %q", got)
		}
	}
	if got := f.proxy.Counters().Flag(FlagUpstreamOverflow); got != 1 {
		t.Errorf("refused: got %d, want 1", got)
	}
}

func TestWaitingForAConnectionEndsWithTheRoutesTimeout(t *testing.T) {
	serve, came, answer := gated(t)
	defer close(answer)
	f := newFront(t, list(rawEndpoint(t, serve)), limited(model.Breakers{MaxConnections: 1, MaxPending: 9, MaxRequests: 9}), routeTimeout(200*time.Millisecond))
	for range 2 {
		if got := f.exchange(closing("/")); !strings.HasPrefix(got, "HTTP/1.1 504 ") {
			t.Fatalf("got %q", got)
		}
	}
	<-came
	eventually(t, "nobody waits, and nothing is counted", func() bool {
		return waitingAt(f, 0)() && f.proxy.gates.of("c", model.PriorityDefault).own.Active() == 0
	})
}

func TestRetryBudgetFollowsTheLoad(t *testing.T) {
	b := model.Breakers{MaxRetries: 7, Budget: &model.RetryBudget{Percent: 20, Min: 3}}
	for requests, want := range map[uint64]uint64{0: 3, 15: 3, 20: 4, 1000: 200} {
		if got := b.RetriesAt(requests); got != want {
			t.Errorf("with %d requests: got %d, want %d", requests, got, want)
		}
	}
	if b.Budget = nil; b.RetriesAt(1000) != 7 {
		t.Errorf("without a budget: got %d, want 7", b.RetriesAt(1000))
	}
}
