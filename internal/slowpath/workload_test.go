// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/tcptest"
)

// ofClient is the workload of the clients of these tests.
const ofClient workload.ID = 7

// workloadCase is a way that a request, or a connection, comes to endpoints.
type workloadCase struct {
	name, request string
	option        frontOption
	// answers of the endpoint to requests, in turn, and the last one to all others. After one that changes protocols it closes.
	answers []string
	// refusing: another endpoint comes first, which refuses connections. unread: the endpoint closes the first connection before it has read any of it.
	refusing, unread bool
	resumed          func(t *testing.T, f *front, endpoint netip.AddrPort) *ResumedRequest
	dials            int
}

// dialed counts connections by the workload that they were made from.
type dialed struct {
	mu   sync.Mutex
	from map[workload.ID]int
}

func (d *dialed) note(from workload.ID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from[from]++
	return d.from[from]
}

func (d *dialed) counts() map[workload.ID]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.from)
}

// answering is an endpoint.
func (c *workloadCase) answering(t *testing.T) netip.AddrPort {
	var requests, opened atomic.Int32
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		if opened.Add(1) == 1 && c.unread {
			return
		}
		for readHeadOf(r) != "" {
			n := min(int(requests.Add(1)), len(c.answers)) - 1
			_, _ = io.WriteString(conn, c.answers[n])
			if strings.HasPrefix(c.answers[n], "HTTP/1.1 101") {
				return
			}
		}
	})
}

const (
	unavailable = "HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno"
	connectOnce = "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"
)

func retrying(_ *Config, r *model.Route) {
	r.Retry = &model.Retry{On: model.RetryOn5xx, Retries: 2, Base: time.Millisecond, Max: time.Millisecond}
}

func withoutHTTP(c *Config, _ *model.Route) {
	activeOf(c).tcp = func(string) *model.TCPProxy {
		return &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}, ConnectAttempts: 2}
	}
}

// lostLease is an attempt of the fast path's that has no answer.
func lostLease(_ *testing.T, f *front, endpoint netip.AddrPort) *ResumedRequest {
	return &ResumedRequest{Request: lastGet, Began: time.Now(), Attempt: &Attempt{Cluster: model.SharedCluster("c"), Endpoint: &fakePick{balancer: f.balancer, address: endpoint}}}
}

// withheld is one whose answer is such that the request is sent again.
func withheld(t *testing.T, f *front, endpoint netip.AddrPort) *ResumedRequest {
	near, far := tcpPair(t)
	_, _ = io.WriteString(far, unavailable)
	r := lostLease(t, f, endpoint)
	r.Attempt.Conn, r.Attempt.End = upstream.New(near.(upstream.TCP)), func(AttemptEnd) {}
	r.Attempt.OnLoss = func(func()) func() bool { return func() bool { return true } }
	return r
}

// unseen is a request that no endpoint has seen.
func unseen(*testing.T, *front, netip.AddrPort) *ResumedRequest {
	return &ResumedRequest{Request: lastGet, Began: time.Now()}
}

func TestEachConnectionToAnEndpointIsMadeFromTheClientsWorkload(t *testing.T) {
	ok := []string{ok2}
	mirrored := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for readHeadOf(r) != "" {
			_, _ = io.WriteString(conn, ok2)
		}
	})
	for _, tt := range []workloadCase{
		{name: "a request", request: lastGet, answers: ok, dials: 1},
		{name: "two requests of a connection", request: get + lastGet, answers: ok, dials: 1},
		{name: "a body", request: "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", answers: ok, dials: 1},
		{name: "another endpoint, without a policy", request: lastGet, answers: ok, refusing: true, dials: 2},
		{name: "a connection that ends unread", request: lastGet, answers: ok, unread: true, dials: 2},
		{name: "a retry of an answer", request: lastGet, option: retrying, answers: []string{unavailable, unavailable, ok2}, dials: 3},
		{name: "a retry of a connection", request: lastGet, option: retrying, answers: ok, refusing: true, dials: 2},
		{name: "a copy", request: lastGet, option: mirroring(mirrored), answers: ok, dials: 2},
		{
			name: "an upgrade", request: "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", option: allow("x"),
			answers: []string{"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"}, dials: 1,
		},
		{name: "CONNECT", request: connectOnce, option: connectRoute(false), answers: []string{"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}, dials: 1},
		{name: "CONNECT that ends here", request: connectOnce + lastGet, option: connectRoute(true), answers: ok, dials: 1},
		{name: "no HTTP", request: lastGet, option: withoutHTTP, answers: ok, dials: 1},
		{name: "no HTTP, another endpoint", request: lastGet, option: withoutHTTP, answers: ok, refusing: true, dials: 2},
		{name: "resent, unseen", resumed: unseen, answers: ok, dials: 1},
		{name: "resent, lost", resumed: lostLease, option: retrying, answers: ok, dials: 1},
		{name: "resent, withheld", resumed: withheld, option: retrying, answers: ok, dials: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.play(t, Session{Listener: "l", Workload: ofClient, Account: ofClient})
		})
		t.Run(tt.name+", by way of another listener", func(t *testing.T) {
			tt.play(t, Session{Listener: "l", From: func() upstream.Origin {
				return upstream.Origin{Workload: ofClient, Account: ofClient, Depth: 1, Copies: 8}
			}})
		})
	}
}

func (c *workloadCase) play(t *testing.T, s Session) {
	endpoint := c.answering(t)
	endpoints := list(endpoint)
	if c.refusing {
		endpoints = list(tcptest.Refusing(t), endpoint)
	}
	dials := dialed{from: map[workload.ID]int{}}
	var inProgress atomic.Int64
	var f *front
	f = newFront(t, endpoints, func(config *Config, r *model.Route) {
		config.Dial = func(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
			n := dials.note(from)
			if taken := f.proxy.RequestUsage().By[from].Taken; taken > 0 {
				inProgress.Store(int64(taken))
			}
			conn, err := conns.Dial(ctx, workload.Host, to)
			if err == nil && c.unread && n == 1 {
				u := upstream.New(conn.(upstream.TCP))
				eventually(t, "the endpoint closes", func() bool { return !u.Quiet() })
			}
			return conn, err
		}
		if c.option != nil {
			c.option(config, r)
		}
	})
	f.proxy.Join(ofClient, ofClient)
	if c.resumed != nil {
		s.Resumed = c.resumed(t, f, endpoint)
	}
	client, server := tcpPair(t)
	_, _ = io.WriteString(client, c.request)
	_ = conns.CloseWrite(client)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	for quiet := true; quiet; s.Resumed = nil {
		r, _ := f.proxy.Serve(t.Context(), server, s)
		quiet = r.Quiet
	}
	eventually(t, "the copies have ended", func() bool { return f.proxy.CopyUsage().Taken == 0 })
	if got := dials.counts(); !maps.Equal(got, map[workload.ID]int{ofClient: c.dials}) {
		t.Errorf("connections, by workload: %v; want %d of %d", got, c.dials, ofClient)
	}
	want := int64(1)
	if s.From != nil {
		want = 0 // another listener counts it
	}
	if got := inProgress.Load(); got != want {
		t.Errorf("%d requests were in progress as it was connected, want %d", got, want)
	}
	if n := f.proxy.RequestUsage().Taken; n != 0 {
		t.Errorf("%d requests are in progress when all have ended", n)
	}
}

// What goes from one listener of this process to another says whose it is, however many it passes, and so do copies.
func TestTheWorkloadIsThatOfTheClientThatBegan(t *testing.T) {
	h := newInnerListeners(t, map[byte]*model.Route{1: leads(2, 3), 2: leads(4), 3: leads(4), 4: answers()})
	for _, from := range []workload.ID{ofClient, ofClient + 1} {
		h.askFrom(t, 1, Session{Workload: from, Account: from}, get+lastGet)
		h.mu.Lock()
		if len(h.carried) < 4 {
			t.Errorf("%d connections between listeners, want one at least for each that is passed", len(h.carried))
		}
		for _, o := range h.carried {
			if o.Workload != from {
				t.Errorf("a request of workload %d passes a listener as one of %d", from, o.Workload)
			}
		}
		h.carried = nil
		h.mu.Unlock()
	}
}

// No idle connection is of use to another workload, or stays when its own leaves.
func TestIdleConnectionsAreOfOneWorkload(t *testing.T) {
	dials := dialed{from: map[workload.ID]int{}}
	f := newFront(t, list(saying200(t)), func(c *Config, _ *model.Route) {
		c.Dial = func(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
			dials.note(from)
			return conns.Dial(ctx, workload.Host, to)
		}
	})
	f.proxy.Join(1, 1)
	f.proxy.Join(2, 2)
	request := func(from workload.ID) {
		t.Helper()
		client, server := tcpPair(t)
		_, _ = io.WriteString(client, lastGet)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		if _, err := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Workload: from, Account: from}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		for from := range workload.ID(3) {
			request(from)
		}
	}
	if got := dials.counts(); !maps.Equal(got, map[workload.ID]int{0: 1, 1: 1, 2: 1}) {
		t.Errorf("connections, by workload: %v; want one each", got)
	}
	f.awaitIdle(3)
	f.proxy.Leave(1)
	f.awaitIdle(2)
	request(1)
	f.awaitIdle(2)
	request(2)
	if got := dials.counts(); !maps.Equal(got, map[workload.ID]int{0: 1, 1: 2, 2: 1}) {
		t.Errorf("connections once one has left, by workload: %v", got)
	}
}

// By it the pool knows from where an endpoint may be reached: that of a copy is of the client, too.
func TestOutcomesNameTheWorkloadOfTheirResponse(t *testing.T) {
	f := newFront(t, list(saying200(t)), mirroring(saying200(t)), func(c *Config, _ *model.Route) {
		c.Dial = func(ctx context.Context, _ workload.ID, to netip.AddrPort) (net.Conn, error) {
			return conns.Dial(ctx, workload.Host, to)
		}
	})
	f.proxy.Join(ofClient, ofClient)
	client, server := tcpPair(t)
	_, _ = io.WriteString(client, lastGet)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	if _, err := f.proxy.Serve(t.Context(), server, Session{Listener: "l", Workload: ofClient, Account: ofClient}); err != nil {
		t.Fatal(err)
	}
	var outcomes []Outcome
	eventually(t, "the request and its copy have ended", func() bool {
		_, outcomes = f.balancer.seen()
		return len(outcomes) == 2
	})
	for _, o := range outcomes {
		if o.Status != 200 || o.Workload != ofClient {
			t.Errorf("outcome %+v, want a response that workload %d had", o, ofClient)
		}
	}
}
