// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

func limited(b model.Breakers) frontOption {
	return func(c *Config, _ *model.Route) {
		activeOf(c).cluster = func(name string) *model.Cluster {
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
		_, waiting := f.proxy.breakers.Counts(model.SharedCluster("c"), model.PriorityDefault)
		return waiting == uint64(n)
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
		active, waiting := f.proxy.breakers.Counts(model.SharedCluster("c"), model.PriorityDefault)
		return waiting == 0 && active == 0
	})
}

// A limit of 0 for connections leaves one, as in Envoy; each other one leaves no request.
func TestLimitsOfZero(t *testing.T) {
	for _, c := range []struct {
		name     string
		breakers model.Breakers
		want     string
		flag     Flag
		active   uint64
		pending  uint64
	}{
		{"connections", model.Breakers{MaxPending: 1, MaxRequests: 9}, "HTTP/1.1 200 ", FlagNone, 0, 0},
		{"connections, and one request", model.Breakers{MaxPending: 1, MaxRequests: 1}, "HTTP/1.1 200 ", FlagNone, 0, 0},
		{"pending requests", model.Breakers{MaxConnections: 9, MaxRequests: 9}, "HTTP/1.1 503 ", FlagUpstreamOverflow, 0, 1},
		{"requests", model.Breakers{MaxConnections: 9, MaxPending: 9}, "HTTP/1.1 503 ", FlagUpstreamOverflow, 1, 0},
		{"connections and requests", model.Breakers{MaxPending: 9}, "HTTP/1.1 503 ", FlagUpstreamOverflow, 1, 0},
		{"pending requests and requests", model.Breakers{MaxConnections: 9}, "HTTP/1.1 503 ", FlagUpstreamOverflow, 0, 1},
		{"pools", model.Breakers{MaxConnections: 9, MaxPending: 9, MaxRequests: 9, NoPools: true}, "HTTP/1.1 503 ", FlagNoHealthyUpstream, 0, 0},
		{"all", model.Breakers{NoPools: true}, "HTTP/1.1 503 ", FlagNoHealthyUpstream, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoint := httpEndpoint(t, func(http.ResponseWriter, *http.Request) {})
			f := newFront(t, list(endpoint), limited(c.breakers), routeTimeout(patience))
			if got := f.exchange(closing("/")); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %s", got, c.want)
			}
			if n := f.proxy.Counters().Flag(c.flag); n != 1 {
				t.Errorf("flag %v counted %d times", c.flag, n)
			}
			stats := f.proxy.Stats()(f.proxy.config.Active().Cluster(model.SharedCluster("c")))
			if a, p := stats["upstream_rq_active_overflow"], stats["upstream_rq_pending_overflow"]; a != c.active || p != c.pending {
				t.Errorf("refused for those in flight %d, for those that wait %d; want %d, %d", a, p, c.active, c.pending)
			}
		})
	}
}

// fakeLoad is a count, of which the fast path may have some.
type fakeLoad struct{ active, held atomic.Int32 }

// Enter implements Load.
func (l *fakeLoad) Enter(limit uint32) (leave func(), ok bool) {
	if l.active.Add(1) > int32(limit) {
		l.active.Add(-1)
		return nil, false
	}
	return func() { l.active.Add(-1) }, true
}

// Active implements Load.
func (l *fakeLoad) Active() uint32 { return uint32(l.active.Load()) }

// Hold implements Load.
func (l *fakeLoad) Hold() (release func()) {
	l.held.Add(1)
	return func() { l.held.Add(-1) }
}

// fakeLoads are those of all clusters, by account.
type fakeLoads func(account workload.ID) *fakeLoad

// Of implements Loads.
func (f fakeLoads) Of(_ model.ClusterKey, account workload.ID) Load { return f(account) }

// Fullest implements Loads.
func (f fakeLoads) Fullest() func(model.ClusterKey) uint32 {
	return func(model.ClusterKey) uint32 { return f(workload.Host).Active() }
}

// A cluster that is taken away and comes back under its name has another count. Who waits then waits for that one: nobody takes from the
// count of before any more, or those who do are another cluster's requests.
func TestWaitingRequestsFollowTheClusterOfTheirName(t *testing.T) {
	serve, came, answer := gated(t)
	defer close(answer)
	before, after := &fakeLoad{}, &fakeLoad{}
	before.active.Store(1)
	var now atomic.Pointer[fakeLoad]
	now.Store(before)
	f := newFront(t, list(rawEndpoint(t, serve)), limited(model.Breakers{MaxConnections: 1, MaxPending: 2, MaxRequests: 9}),
		func(c *Config, _ *model.Route) {
			c.Loads = fakeLoads(func(workload.ID) *fakeLoad { return now.Load() })
		})
	answers := make(chan string, 1)
	go func() { answers <- f.exchange(closing("/1")) }()
	eventually(t, "the request waits", waitingAt(f, 1))
	if before.held.Load() != 1 {
		t.Error("the fast path may take the place of a request that waits")
	}
	after.active.Store(1)
	now.Store(after)
	eventually(t, "the new cluster is held, and the other one is not", func() bool { return after.held.Load() == 1 && before.held.Load() == 0 })
	after.active.Store(0)
	come(t, "the request passes", came)
	if before.Active() != 1 || after.Active() != 1 {
		t.Errorf("%d in flight to the cluster of before, %d to the new one; want one each", before.Active(), after.Active())
	}
	answer <- true
	if got := come(t, "its answer", answers); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("got %q", got)
	}
	eventually(t, "nothing is counted or held", func() bool { return after.Active() == 0 && after.held.Load() == 0 })
}

// What clusters leave behind that have gone would be more with each name.
func TestClustersThatHaveGoneLeaveNoGates(t *testing.T) {
	serve, came, answer := gated(t)
	defer close(answer)
	var gone atomic.Bool
	f := newFront(t, list(rawEndpoint(t, serve)), func(c *Config, _ *model.Route) {
		activeOf(c).cluster = func(name string) *model.Cluster {
			if gone.Load() {
				return nil
			}
			return &model.Cluster{Name: name, ConnectTimeout: patience}
		}
	})
	count := func() int {
		breakers, tallies := f.proxy.breakers.Len()
		return breakers + tallies
	}
	answers := make(chan string, 1)
	go func() { answers <- f.exchange(closing("/1")) }()
	come(t, "the request", came)
	if f.proxy.Sweep(); count() != 2 {
		t.Errorf("%d gates and tallies of a cluster that is there, want the request's and a tally", count())
	}
	gone.Store(true)
	if f.proxy.Sweep(); count() != 1 {
		t.Errorf("%d gates and tallies while a request is under way, want its gate", count())
	}
	answer <- true
	come(t, "its answer", answers)
	eventually(t, "nothing is left", func() bool { f.proxy.Sweep(); return count() == 0 })
}

func come[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("%s has not come", what)
	}
	return got
}
