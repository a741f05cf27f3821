// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// faults panic once, where a test asks for it.
type faults struct{ at atomic.Pointer[string] }

func (f *faults) set(at string) { f.at.Store(&at) }

func (f *faults) here(at string) {
	if now := f.at.Load(); now != nil && *now == at && f.at.CompareAndSwap(now, nil) {
		panic("at " + at)
	}
}

// faultyConn is a connection to an endpoint whose use panics. Its writes and reads have numbers.
type faultyConn struct {
	// of goes before the names of its faults.
	of string
	*net.TCPConn
	faults        *faults
	writes, reads atomic.Int32
	open          *atomic.Int32
	closed        atomic.Bool
}

func (c *faultyConn) Write(b []byte) (int, error) {
	c.faults.here(fmt.Sprint(c.of, "write ", c.writes.Add(1)))
	return c.TCPConn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	c.faults.here(fmt.Sprint(c.of, "read ", c.reads.Add(1)))
	return c.TCPConn.Read(b)
}

func (c *faultyConn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.TCPConn.Close()
}

// crashing is a front whose code can be made to panic.
type crashing struct {
	*front
	faults *faults
	// open are connections to endpoints, others clients that wait to send another request.
	open   atomic.Int32
	others int64
}

type faultyObserver struct{ *faults }

func (o faultyObserver) Observe(Report) { o.here("observer") }

// faultyBalancer panics when it picks an endpoint of copies, or such an endpoint when it gives its address or is given back.
type faultyBalancer struct {
	Balancer
	faults *faults
}

func (b faultyBalancer) Pick(cluster *model.Cluster, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (ChosenEndpoint, bool) {
	if cluster.Name != "m" {
		return b.Balancer.Pick(cluster, criteria, hash, skip)
	}
	b.faults.here("copy's pick")
	e, ok := b.Balancer.Pick(cluster, criteria, hash, skip)
	return faultyPick{e, b.faults}, ok
}

type faultyPick struct {
	ChosenEndpoint
	faults *faults
}

func (p faultyPick) Address() netip.AddrPort {
	p.faults.here("copy's address")
	return p.ChosenEndpoint.Address()
}

// Done panics behind what it is for: one that is called again counts.
func (p faultyPick) Done(o Outcome) {
	p.ChosenEndpoint.Done(o)
	p.faults.here("copy's done")
}

// mirrored has a copy made of each request, and mirroredTwice two.
func mirrored(_ *Config, r *model.Route) {
	r.Mirrors = []model.Mirror{{Cluster: "m", Share: matcher.Fraction{Numerator: 1, Denominator: 1}}}
}

func mirroredTwice(config *Config, r *model.Route) {
	mirrored(config, r)
	r.Mirrors = append(r.Mirrors, r.Mirrors...)
}

func newCrashing(t *testing.T, endpoint netip.AddrPort, options ...frontOption) *crashing {
	c, copies := &crashing{faults: &faults{}}, echoing(t)
	c.front = newFront(t, []netip.AddrPort{endpoint}, append(options, func(config *Config, _ *model.Route) {
		activeOf(config).match = func(table *model.RouteTable, r *matcher.Request, _ func() bool) *model.Route {
			c.faults.here("match")
			return table.Match(r)
		}
		config.Dial = func(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
			c.faults.here("dial")
			conn, err := conns.Dial(ctx, from, to)
			if err != nil {
				return nil, err
			}
			c.open.Add(1)
			of := ""
			if to == copies {
				of = "copy's "
			}
			return &faultyConn{of: of, TCPConn: conn.(*net.TCPConn), faults: c.faults, open: &c.open}, nil
		}
		activeOf(config).cluster = func(name string) *model.Cluster {
			c.faults.here("cluster")
			return &model.Cluster{Name: name, ConnectTimeout: patience}
		}
		config.Observer = faultyObserver{c.faults}
		config.Balancer = faultyBalancer{config.Balancer, c.faults}
	})...)
	c.balancer.endpoints["m"] = []netip.AddrPort{copies}
	c.panics = 1
	return c
}

// echoing answers each request with its body, and switches protocols where the request wants that.
func echoing(t *testing.T) netip.AddrPort {
	return rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.Header.Get("Upgrade") != "" {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n")
				_, _ = io.Copy(conn, r)
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
			if _, err := conn.Write(body); err != nil {
				return
			}
		}
	})
}

// other is a client with a connection of its own, which is served while others end.
type other struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func (c *crashing) other() *other {
	conn := c.dial()
	c.others++
	o := &other{c.t.(*testing.T), conn, bufio.NewReader(conn)}
	o.exchange()
	// Its request is over only then, and meets no fault that is set.
	c.mustHaveNothing()
	return o
}

func (o *other) exchange() {
	o.t.Helper()
	if _, err := io.WriteString(o.conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
		o.t.Fatalf("the other client: %v", err)
	}
	resp, err := http.ReadResponse(o.r, nil)
	if err != nil {
		o.t.Fatalf("the other client: %v", err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hi" || resp.StatusCode != http.StatusOK {
		o.t.Fatalf("the other client got %d %q, %v", resp.StatusCode, body, err)
	}
}

// mustHaveNothing requires that all has been given back that a request has taken.
func (c *crashing) mustHaveNothing() {
	c.t.Helper()
	await.Quiet(c.t, func() string {
		picked, outcomes := c.balancer.seen()
		active, _ := c.proxy.breakers.Counts(model.SharedCluster("c"), model.PriorityDefault)
		mirrors := c.proxy.CopyUsage().Taken
		switch {
		case picked != len(outcomes):
			return fmt.Sprintf("%d endpoints were picked, and %d given back", picked, len(outcomes))
		case active != 0 || mirrors != 0:
			return fmt.Sprintf("%d requests and %d copies are counted", active, mirrors)
		case c.proxy.RequestUsage().Taken != 0:
			return fmt.Sprintf("%d entries of requests are taken", c.proxy.RequestUsage().Taken)
		case c.proxy.MemoryUsage().Taken != 0:
			return fmt.Sprintf("%d blocks of memory are taken", c.proxy.MemoryUsage().Taken)
		case c.proxy.IdleUsage().Taken != c.idleConns():
			return fmt.Sprintf("%d entries of idle connections are taken, and %d connections idle", c.proxy.IdleUsage().Taken, c.idleConns())
		case c.proxy.counters.active.Load() > c.others:
			return "a connection is counted as being served"
		case int(c.open.Load()) != c.idleConns():
			return fmt.Sprintf("%d connections to endpoints are open, and %d of them idle", c.open.Load(), c.idleConns())
		}
		return ""
	})
}

// A panic ends the connection of the client that it happened for, and nothing else: what its request has taken is given back, and no connection that it has
// used is used again.
func TestPanicEndsOneConnection(t *testing.T) {
	const (
		get      = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
		posted   = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"
		switchTo = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\n"
	)
	upgrades := func(_ *Config, r *model.Route) { r.Upgrades = []string{"test"} }
	retries := func(_ *Config, r *model.Route) {
		r.Retry = &model.Retry{On: model.RetryOn5xx, Retries: 3, Base: time.Millisecond, Max: time.Millisecond}
	}
	for _, tt := range []struct {
		name, at, request, more string
		option                  frontOption
	}{
		{name: "before an endpoint is chosen", at: "match", request: get},
		{name: "when the cluster is looked for", at: "cluster", request: get},
		{name: "behind a long head", at: "match", request: strings.Replace(get, "Host", "X: "+strings.Repeat("x", 20000)+"\r\nHost", 1)},
		{name: "while it is connected to an endpoint", at: "dial", request: get},
		{name: "while the request is sent", at: "write 1", request: get},
		{name: "while a large request's head is sent", at: "write 1", request: posted, more: strings.Repeat("x", 100000)},
		{name: "while the body is sent by a goroutine of its own", at: "write 2", request: posted, more: strings.Repeat("x", 100000)},
		{name: "while the body is sent, which is to come", at: "write 2", request: posted, more: strings.Repeat("x", 50000)},
		{name: "while the body is sent, with retries", at: "write 2", request: posted, more: strings.Repeat("x", 100000), option: retries},
		{name: "while the head of the response is read", at: "read 1", request: get},
		{name: "while the head of the response is read, with retries", at: "read 1", request: get, option: retries},
		{name: "while the response is read, and the body is to come", at: "read 1", request: posted, more: "x"},
		{name: "behind the whole response", at: "observer", request: get},
		{name: "while a copy is made, before its endpoint is chosen", at: "copy's pick", request: get, option: mirrored},
		{name: "while a copy is made, behind that", at: "copy's address", request: get, option: mirrored},
		{name: "in a tunnel, by the goroutine that sends", at: "write 2", request: switchTo, more: "hello", option: upgrades},
		{name: "in a tunnel, by the one that receives", at: "read 2", request: switchTo, more: "hello", option: upgrades},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := []frontOption{}
			if tt.option != nil {
				options = append(options, tt.option)
			}
			c := newCrashing(t, echoing(t), options...)
			o := c.other()
			// The other one's connection to the endpoint is idle: the request would take it.
			c.proxy.conns.Shed()
			c.faults.set(tt.at)
			conn := c.dial()
			if _, err := io.WriteString(conn, tt.request+tt.more); err != nil && !tcpEnded(err) {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if tt.at != "observer" && strings.Contains(string(answer), "200 OK") {
				t.Errorf("the client got %q", answer)
			}
			if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Error("the client's connection has not ended")
			}
			if c.faults.at.Load() != nil {
				t.Fatal("nothing has panicked")
			}
			o.exchange()
			c.mustHaveNothing()
		})
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// tcpEnded reports an error of a connection that the other side has reset.
func tcpEnded(err error) bool { return err != nil && !isTimeout(err) }

// A copy of a request that panics is no matter of the client's.
func TestPanicOfACopyEndsTheCopy(t *testing.T) {
	for _, at := range []string{"copy's write 1", "copy's read 1", "copy's done"} {
		t.Run(at, func(t *testing.T) {
			c := newCrashing(t, echoing(t), mirrored)
			o := c.other()
			c.mustHaveNothing()
			c.proxy.conns.Shed()
			c.faults.set(at)
			o.exchange()
			await.Quiet(t, func() string {
				if c.faults.at.Load() != nil {
					return "nothing has panicked"
				}
				return ""
			})
			o.exchange()
			c.mustHaveNothing()
		})
	}
}

// Copies that are not sent are given back once each, whatever the first of them panics at: amid the request, whose body is too long for them, or at its
// end, behind the recovery of the request.
func TestPanicOfACopyThatIsNotSentEndsTheCopy(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		answered   bool
	}{
		{"amid the request", strings.Repeat("x", 100_000), true},
		{"at its end", "x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCrashing(t, echoing(t), mirroredTwice)
			o := c.other()
			c.mustHaveNothing()
			c.faults.set("copy's done")
			client := c.dial()
			if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n"+tt.body); err != nil {
				t.Fatal(err)
			}
			if err := client.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(client)
			if isTimeout(err) || tt.answered != strings.Contains(string(answer), "200 OK") {
				t.Errorf("the client got %.100q, %v", answer, err)
			}
			await.Quiet(t, func() string {
				if c.faults.at.Load() != nil {
					return "nothing has panicked"
				}
				return ""
			})
			o.exchange()
			c.mustHaveNothing()
		})
	}
}

// Of a connection without HTTP either direction may panic.
func TestPanicEndsOneConnectionWithoutHTTP(t *testing.T) {
	for _, at := range []string{"dial", "write 1", "write 2", "read 1", "read 2"} {
		t.Run(at, func(t *testing.T) {
			c := newCrashing(t, echoing(t), func(config *Config, _ *model.Route) {
				activeOf(config).tcp = func(listener string) *model.TCPProxy {
					if listener != "plain" {
						return nil
					}
					return &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
				}
			})
			o := c.other()
			c.faults.set(at)
			client, server := boundedPair(t)
			served := make(chan Result, 1)
			go func() {
				r, _ := c.proxy.Serve(t.Context(), server, Session{Listener: "plain"})
				served <- r
			}()
			var err error
			for i := 0; i < 3 && err == nil; i++ {
				if _, err = io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err == nil {
					_, err = client.Read(make([]byte, 1000))
				}
			}
			if isTimeout(err) || err == nil {
				t.Errorf("the client's connection has not ended: %v", err)
			}
			if r := await.Next(t, served, "end of the connection"); r.Quiet || c.faults.at.Load() != nil {
				t.Errorf("got %+v, want the end by a panic", r)
			}
			o.exchange()
			c.mustHaveNothing()
		})
	}
}

// The goroutine that watches over a request asks whether its client stays.
func TestPanicOfTheWatchEndsTheRequest(t *testing.T) {
	hang := make(chan struct{})
	c := newCrashing(t, httpEndpoint(t, func(http.ResponseWriter, *http.Request) { <-hang }))
	defer close(hang)
	client, server := boundedPair(t)
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /next"); err != nil {
		t.Fatal(err)
	}
	r, err := c.proxy.Serve(t.Context(), server, Session{Listener: "l", Stays: func() bool { panic("of the watch") }})
	if r.Quiet || err == nil {
		t.Errorf("got %+v, %v, want the end of the connection", r, err)
	}
	c.mustHaveNothing()
}

// A response that is relayed for the fast path gives neither connection back.
func TestPanicEndsARelay(t *testing.T) {
	c := newCrashing(t, echoing(t))
	client, server := boundedPair(t)
	endpoint, up := boundedPair(t)
	c.faults.set("read 2")
	c.open.Add(1)
	if _, err := io.WriteString(endpoint, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := c.proxy.Relay(t.Context(), server, &faultyConn{TCPConn: up.(*net.TCPConn), faults: c.faults, open: &c.open}, RelayRequest{Method: "GET", KeepAlive: true})
	if !errors.Is(err, crash.Err) || r.UpstreamReusable || r.ClientReusable || r.Switched || r.Lingers {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, conn := range []net.Conn{client, endpoint} {
		if _, err := io.ReadAll(conn); isTimeout(err) {
			t.Error("a connection has not ended")
		}
	}
	c.mustHaveNothing()
}

// An endpoint that the kernel had chosen is given back wherever the panic is.
func TestPanicGivesTheKernelsChoiceBack(t *testing.T) {
	for _, at := range []string{"match", "cluster", "dial", "write 1"} {
		t.Run(at, func(t *testing.T) {
			c := newCrashing(t, echoing(t))
			claimed, ok := c.balancer.Pick(&model.Cluster{Name: "c"}, "", 0, func(netip.AddrPort) bool { return false })
			if !ok {
				t.Fatal("no endpoint")
			}
			client, server := boundedPair(t)
			if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			c.faults.set(at)
			scheduler := shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 1})
			r, err := c.proxy.Serve(t.Context(), server, Session{Listener: "l", Claim: &Claim{Cluster: model.SharedCluster("c"), Endpoint: claimed}, Ticket: scheduler.Ticket(shares.Path{1})})
			if r.Quiet || !errors.Is(err, crash.Err) {
				t.Errorf("got %+v, %v, want the end of the connection", r, err)
			}
			if n := scheduler.Counts().Tenants; n != 0 {
				t.Errorf("%d tenants are at work still", n)
			}
			c.mustHaveNothing()
		})
	}
}

// boundedPair is tcpPair, whose client waits no longer than a test may.
func boundedPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server = tcpPair(t)
	if err := client.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return client, server
}
