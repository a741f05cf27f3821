// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/test/await"
)

// innerListeners is a proxy whose endpoints are its own listeners: clusters and listeners are called by their addresses.
type innerListeners struct {
	proxy     *Proxy
	scheduler *shares.Scheduler
	ctx       context.Context //nolint:containedctx // of the test

	mu sync.Mutex
	// requests are those that were routed, by listener, and carried the origins of those that came from another. Both are guarded by mu.
	requests map[string]int
	carried  []upstream.Origin
}

func listenerAt(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, 0, n}), 80)
}

// leads is a route to a listener, that has copies made for others.
func leads(to byte, copies ...byte) *model.Route {
	r := &model.Route{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: listenerAt(to).String(), Weight: 1}}}
	for _, c := range copies {
		r.Mirrors = append(r.Mirrors, model.Mirror{Cluster: listenerAt(c).String()})
	}
	return r
}

// answers is a route that leads nowhere.
func answers() *model.Route {
	return &model.Route{Path: matcher.PathMatch{Value: "/"}, Direct: &model.DirectResponse{Status: http.StatusOK}}
}

// newInnerListeners has listeners with one route each.
func newInnerListeners(t *testing.T, routes map[byte]*model.Route) *innerListeners {
	ctx, cancel := context.WithCancel(context.Background())
	h := &innerListeners{requests: map[string]int{}, ctx: ctx, scheduler: shares.NewScheduler(shares.Limits{AtWork: 2, Waiting: 1 << 20})}
	balancer := &fakeBalancer{endpoints: map[string][]netip.AddrPort{}}
	tables := map[string]*model.RouteTable{}
	names := map[*model.RouteTable]string{}
	for n, r := range routes {
		name := listenerAt(n).String()
		tables[name] = &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{r}}}}
		names[tables[name]], balancer.endpoints[name] = name, list(listenerAt(n))
	}
	h.proxy = New(Config{
		Active: (&configuration{
			routes: func(name string) (*model.RouteTable, bool) { return tables[name], true },
			match: func(table *model.RouteTable, r *matcher.Request, _ func() bool) *model.Route {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.requests[names[table]]++
				return table.Match(r)
			},
			cluster: roomy,
		}).active,
		Balancer: innerBalancer{balancer}, DialInner: h.dial,
	})
	t.Cleanup(func() {
		cancel()
		h.proxy.Close()
		await.Quiet(t, h.proxy.quotas.unreturned)
	})
	return h
}

// roomy is a cluster whose circuit breakers let all pass that may come of one request. Where fewer pass they may all wait for those behind them, which are not
// let in, until the time of a route is up.
func roomy(name string) *model.Cluster {
	c := &model.Cluster{Name: name, ConnectTimeout: patience}
	c.Breakers[model.PriorityDefault] = &model.Breakers{MaxConnections: maxTotal, MaxPending: maxTotal, MaxRequests: maxTotal, MaxRetries: 3}
	return c
}

type innerBalancer struct{ *fakeBalancer }

type innerPick struct{ ChosenEndpoint }

func (innerPick) Inner() bool { return true }

func (b innerBalancer) Pick(cluster *model.Cluster, m model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (ChosenEndpoint, bool) {
	p, ok := b.fakeBalancer.Pick(cluster, m, hash, skip)
	return innerPick{p}, ok
}

type innerEnd struct {
	*net.TCPConn
	inner *innerListeners
	from  *atomic.Pointer[upstream.Origin]
}

func (c innerEnd) Carry(from upstream.Origin) {
	c.from.Store(&from)
	c.inner.mu.Lock()
	defer c.inner.mu.Unlock()
	c.inner.carried = append(c.inner.carried, from)
}

func (h *innerListeners) dial(ctx context.Context, to netip.AddrPort, from upstream.Origin) (InnerConn, error) {
	near, far, err := pair(ctx)
	if err != nil {
		return nil, err
	}
	end := innerEnd{near, h, &atomic.Pointer[upstream.Origin]{}}
	end.Carry(from)
	go h.serve(far, Session{Listener: to.String(), From: func() upstream.Origin { return *end.from.Load() }})
	return end, nil
}

// pair is both ends of a connection.
func pair(ctx context.Context) (near, far *net.TCPConn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	var d net.Dialer
	a, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	b, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	return a.(*net.TCPConn), b.(*net.TCPConn), nil
}

// serve does what the owner of connections does.
func (h *innerListeners) serve(conn net.Conn, s Session) {
	s.Ticket = h.scheduler.Ticket(shares.Path{1})
	for quiet := true; quiet; {
		r, _ := h.proxy.Serve(h.ctx, conn, s)
		quiet = r.Quiet
	}
}

// ask has a client of a listener send something, and waits until all that came of it has ended.
func (h *innerListeners) ask(t *testing.T, at byte, from func() upstream.Origin, raw string) {
	t.Helper()
	h.askFrom(t, at, Session{From: from}, raw)
}

// askFrom is ask of a client with that session.
func (h *innerListeners) askFrom(t *testing.T, at byte, s Session, raw string) {
	t.Helper()
	near, far, err := pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	s.Listener = listenerAt(at).String()
	go h.serve(far, s)
	if _, err := io.WriteString(near, raw); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(near)
		answered <- err
	}()
	for len(answered) == 0 || h.proxy.CopyUsage().Taken > 0 {
		if n := h.total(); n > maxTotal {
			t.Fatalf("%d requests, and no end, have come of one", n)
		}
		time.Sleep(time.Millisecond)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// maxTotal is more requests than may come of one.
const maxTotal = (1 + 128) * MaxDepth

func (h *innerListeners) total() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		n += r
	}
	return n
}

const lastGet = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

func TestCopiesThatComeBackDoNotMultiply(t *testing.T) {
	for _, tt := range []struct {
		name   string
		routes map[byte]*model.Route
	}{
		{"to itself", map[byte]*model.Route{1: leads(1, 1)}},
		{"to itself, twice", map[byte]*model.Route{1: leads(1, 1, 1)}},
		{"to each other", map[byte]*model.Route{1: leads(2, 2, 2, 2), 2: leads(1, 1, 1, 1)}},
		{"copies alone", map[byte]*model.Route{1: leads(3, 2, 2), 2: leads(3, 1, 1), 3: answers()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newInnerListeners(t, tt.routes)
			h.ask(t, 1, nil, lastGet)
			if n := h.total(); n > maxTotal || n < MaxDepth/2 {
				t.Errorf("%d requests have come of one, want at most %d", n, maxTotal)
			}
		})
	}
}

// As in Envoy, copies may be copied.
func TestCopiesOfCopiesAreMade(t *testing.T) {
	h := newInnerListeners(t, map[byte]*model.Route{1: leads(9, 2), 2: leads(9, 3), 3: leads(9, 4, 4), 4: answers(), 9: answers()})
	h.ask(t, 1, nil, lastGet)
	want := map[string]int{listenerAt(1).String(): 1, listenerAt(2).String(): 1, listenerAt(3).String(): 1, listenerAt(4).String(): 2, listenerAt(9).String(): 3}
	if !maps.Equal(h.requests, want) {
		t.Errorf("requests by listener: %v, want %v", h.requests, want)
	}
}

// More copies than the bound are left out, one by one.
func TestCopiesOfOneRequestAreBounded(t *testing.T) {
	for left := range 40 {
		for copied := range left + 1 {
			each := policy.CopiesOfEach(left, copied)
			if each < 0 || copied+(copied+1)*each > left {
				t.Errorf("%d left and %d made: %d for each", left, copied, each)
			}
		}
	}
}

// Requests of several clients follow each other on a connection between listeners, perhaps before the one before has been read out.
func TestEachRequestIsChargedToItsOwnClient(t *testing.T) {
	h := newInnerListeners(t, map[byte]*model.Route{1: leads(2), 2: {Path: matcher.PathMatch{Value: "/"}, Direct: &model.DirectResponse{Status: http.StatusOK, Body: "-"}}})
	// The tenant is that of the request which is being served: the first, the second.
	from := func() upstream.Origin {
		h.mu.Lock()
		defer h.mu.Unlock()
		return upstream.Origin{Tenant: shares.Path{uint64(10 + h.requests[listenerAt(1).String()])}, Depth: 1}
	}
	h.ask(t, 1, from, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+lastGet)
	h.mu.Lock()
	defer h.mu.Unlock()
	var charged []shares.Path
	for _, o := range h.carried {
		charged = append(charged, o.Tenant)
	}
	if want := []shares.Path{{10}, {11}}; !slices.Equal(charged, want) {
		t.Errorf("requests were charged to %v, want %v", charged, want)
	}
}
