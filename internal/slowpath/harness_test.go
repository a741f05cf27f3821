// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests.
const patience = await.Patience

// fakeBalancer takes the endpoints of a cluster in turn and records outcomes.
type fakeBalancer struct {
	mu        sync.Mutex
	endpoints map[string][]netip.AddrPort // guarded by mu
	next      int                         // guarded by mu
	picked    int                         // guarded by mu
	outcomes  []Outcome                   // guarded by mu
}

type fakePick struct {
	balancer *fakeBalancer
	address  netip.AddrPort
	done     bool
}

func (b *fakeBalancer) Pick(cluster *model.Cluster, _ model.Metadata, _ uint64, skip func(netip.AddrPort) bool) (ChosenEndpoint, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.endpoints[cluster.Name]
	for range all {
		e := all[b.next%len(all)]
		b.next++
		if !skip(e) {
			b.picked++
			return &fakePick{balancer: b, address: e}, true
		}
	}
	return nil, false
}

func (p *fakePick) Address() netip.AddrPort { return p.address }

func (p *fakePick) Done(o Outcome) {
	p.balancer.mu.Lock()
	defer p.balancer.mu.Unlock()
	if p.done {
		panic("Done called twice")
	}
	p.done = true
	p.balancer.outcomes = append(p.balancer.outcomes, o)
}

func (b *fakeBalancer) seen() (picked int, outcomes []Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.picked, append([]Outcome(nil), b.outcomes...)
}

// front is a proxy behind a real listener.
type front struct {
	t        testing.TB
	proxy    *Proxy
	balancer *fakeBalancer
	address  string
	// brief is Session.Brief of what is served next.
	brief atomic.Bool
	// scheduler divides the time: one connection works at a time, unless a test has another.
	scheduler atomic.Pointer[shares.Scheduler]

	// panics are those that a test provokes.
	panics uint64

	mu      sync.Mutex
	results []Result // guarded by mu; one per Serve call
}

type frontOption func(*Config, *model.Route)

func routeTimeout(d time.Duration) frontOption {
	return func(_ *Config, r *model.Route) { r.Timeout = d }
}

func withLimits(l Limits) frontOption { return func(c *Config, _ *model.Route) { c.Limits = l } }

// newFront serves one route "/" to cluster "c" with those endpoints, and "/gone"
// to a cluster that does not exist.
func newFront(t testing.TB, endpoints []netip.AddrPort, options ...frontOption) *front {
	t.Helper()
	route := &model.Route{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
	gone := &model.Route{Path: matcher.PathMatch{Value: "/gone"}, Clusters: []model.WeightedCluster{{Name: "gone", Weight: 1}}}
	table := &model.RouteTable{HTTP10: model.HTTP10{Accept: true}, VirtualHosts: []*model.VirtualHost{
		{Domains: []string{"nowhere"}},
		{Domains: []string{"*"}, Routes: []*model.Route{gone, route}},
	}}
	f := &front{t: t, balancer: &fakeBalancer{endpoints: map[string][]netip.AddrPort{"c": endpoints}}}
	config := Config{
		Active: (&configuration{routes: always(table), cluster: func(name string) *model.Cluster {
			if name == "gone" {
				return nil
			}
			return &model.Cluster{Name: name, ConnectTimeout: 2 * time.Second}
		}}).active,
		Balancer: f.balancer,
	}
	for _, o := range options {
		o(&config, route)
	}
	f.scheduler.Store(shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 1000}))
	f.proxy = New(config)
	f.listen()
	return f
}

// unreturned says which entries are taken still; "": none. Of a proxy that is closed and serves nothing none may be.
func (q *quotas) unreturned() string {
	requests, idle, copies := q.requests.Usage().Taken, q.idle.Usage().Taken, q.copies.Usage().Taken
	if requests+idle+copies == 0 {
		return ""
	}
	return fmt.Sprintf("entries that were not given back: %d of requests, %d of idle connections, %d of copies", requests, idle, copies)
}

func (f *front) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(ctx, conn) })
		}
	})
	f.t.Cleanup(func() {
		cancel()
		_ = l.Close()
		conns.Wait()
		f.proxy.Close()
		// Copies of requests may be under way.
		await.Quiet(f.t, func() string {
			if c := f.scheduler.Load().Counts(); c.Tenants > 0 {
				return fmt.Sprintf("a ticket still runs: %+v", c)
			}
			return f.proxy.quotas.unreturned()
		})
		if n := f.proxy.config.Crashes.Count(); n != f.panics {
			f.t.Errorf("%d panics, want %d", n, f.panics)
		}
	})
}

// serve does what the owner of anchors does.
func (f *front) serve(ctx context.Context, conn net.Conn) {
	for {
		r, _ := f.proxy.Serve(ctx, conn, Session{Listener: "l", Brief: f.brief.Load(), Ticket: f.scheduler.Load().Ticket(shares.Path{1})})
		f.mu.Lock()
		f.results = append(f.results, r)
		f.mu.Unlock()
		if !r.Quiet {
			return
		}
	}
}

func (f *front) dial() net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// exchange sends raw bytes and returns everything until the proxy closes.
func (f *front) exchange(raw string) string {
	f.t.Helper()
	conn := f.dial()
	if _, err := io.WriteString(conn, raw); err != nil {
		f.t.Fatal(err)
	}
	all, _ := io.ReadAll(conn)
	return string(all)
}

// client returns an HTTP client that speaks to the front whatever the URL says.
func (f *front) client() *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", f.address)
		},
		DisableCompression: true,
	}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 3 * patience}
}

// httpEndpoint runs a real server.
func httpEndpoint(t testing.TB, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// rawEndpoint runs one function per connection.
func rawEndpoint(t testing.TB, serve func(net.Conn, *bufio.Reader)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(patience))
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return netip.MustParseAddrPort(l.Addr().String())
}

// saying answers every request head with fixed bytes, then closes.
func saying(t testing.TB, response string) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		if readHeadOf(r) != "" {
			_, _ = io.WriteString(conn, response)
		}
	})
}

// nonsense answers a request head with what is no HTTP, and keeps the connection.
func nonsense(t testing.TB) netip.AddrPort {
	return rawEndpoint(t, func(c net.Conn, r *bufio.Reader) {
		readHeadOf(r)
		_, _ = io.WriteString(c, "garbage\r\n\r\n")
		_, _ = io.Copy(io.Discard, r)
	})
}

// silent reads and says nothing.
func silent(t testing.TB) netip.AddrPort {
	return rawEndpoint(t, func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
}

// switching answers every request head with 101.
func switching(t testing.TB) netip.AddrPort {
	return saying(t, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
}

// readHeadOf returns a head up to and with its empty line, or "".
func readHeadOf(r *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	await.Quiet(t, func() string {
		if condition() {
			return ""
		}
		return "in vain: " + what
	})
}

func list(a ...netip.AddrPort) []netip.AddrPort { return a }

// configuration is a Configuration of functions; nil: there is nothing of that kind.
type configuration struct {
	routes     func(listener string) (*model.RouteTable, bool)
	match      func(table *model.RouteTable, r *matcher.Request, pause func() (gone bool)) *model.Route
	tcp        func(listener string) *model.TCPProxy
	inspection func(listener string) *model.Inspection
	// cluster are those of the listeners' view, others those of other views.
	cluster func(name string) *model.Cluster
	view    model.View
	// hasNoListener: no listener is known yet.
	hasNoListener bool
	others        func(key model.ClusterKey) *model.Cluster
}

func (c *configuration) active() Configuration { return c }

// nothing is in force.
func nothing() Configuration { return &configuration{} }

// activeOf is the configuration of a Config that newFront has made.
func activeOf(c *Config) *configuration { return c.Active().(*configuration) }

// always are those routes for each listener.
func always(t *model.RouteTable) func(string) (*model.RouteTable, bool) {
	return func(string) (*model.RouteTable, bool) { return t, true }
}

func (c *configuration) Routes(listener string) (*model.RouteTable, bool) {
	if c.routes == nil {
		return nil, false
	}
	return c.routes(listener)
}

func (c *configuration) Match(t *model.RouteTable, r *matcher.Request, pause func() (gone bool)) *model.Route {
	if c.match == nil {
		return t.Match(r)
	}
	return c.match(t, r, pause)
}

func (c *configuration) TCP(listener string) *model.TCPProxy {
	if c.tcp == nil {
		return nil
	}
	return c.tcp(listener)
}

func (c *configuration) Inspection(listener string) *model.Inspection {
	if c.inspection == nil {
		return nil
	}
	return c.inspection(listener)
}

func (c *configuration) Key(v model.View, name string) model.ClusterKey {
	return new(model.Config).In(v).Key(name)
}

func (c *configuration) HasListener(string) bool { return !c.hasNoListener }

func (c *configuration) View(string) model.View { return c.view }

func (c *configuration) Cluster(key model.ClusterKey) *model.Cluster {
	switch {
	case key.View != c.view.Name && c.others != nil:
		return c.others(key)
	case key.View != c.view.Name || c.cluster == nil:
		return nil
	}
	return c.cluster(key.Name)
}
