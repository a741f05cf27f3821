// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

// ChosenEndpoint is an endpoint chosen for one request and counted as busy with it.
type ChosenEndpoint interface {
	Address() netip.AddrPort
	// Done ends the use. It is called exactly once. The zero Outcome means
	// that the endpoint was not used.
	Done(Outcome)
}

// Secured is a Picked whose endpoint may expect secured connections.
type Secured interface {
	ChosenEndpoint
	// Security is nil for an endpoint that expects plain text. Hostname is Envoy's name of it.
	Security() (tls *model.UpstreamTLS, hostname string)
}

// Target is what a connection is secured for.
type Target conns.Target

// Balancer chooses endpoints and counts outstanding requests.
type Balancer interface {
	// Pick chooses an endpoint of the cluster, of the subset that a route with these criteria asks for, by the request's hash if the cluster's
	// policy asks for one, never one for which skip reports true. ok is false when none is healthy. The cluster is that of Configuration.Cluster, which
	// may have been replaced meanwhile.
	Pick(cluster *model.Cluster, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (e ChosenEndpoint, ok bool)
}

// RetryBalancer chooses for the retries of one request whose policy leaves out the priorities that have been tried.
type RetryBalancer interface {
	// Tried notes where an attempt went that another one follows.
	Tried(e ChosenEndpoint)
	// Pick is Balancer's, among what is not left out.
	Pick(skip func(netip.AddrPort) bool) (e ChosenEndpoint, ok bool)
}

// Claim is an endpoint that the kernel had picked for a connection's first
// request before it handed the request over.
type Claim struct {
	Cluster  model.ClusterKey
	Endpoint ChosenEndpoint
	// taken: the user of the endpoint calls its Done.
	taken bool
}

// Limits bound what a client or endpoint can make the proxy hold. A zero field
// means its default.
type Limits struct {
	// HeadBytes of a request or response head, default 60 KiB
	// (HttpConnectionManager.max_request_headers_kb).
	HeadBytes int
	// HeadFields of a request or response head, default 100 (HttpProtocolOptions.max_headers_count).
	HeadFields int
	// HeadTimeout from the first byte of a head to its last, default
	// StreamIdle (HttpConnectionManager.request_headers_timeout).
	HeadTimeout time.Duration
	// StreamIdle is the longest time without progress in either direction of
	// a request, default 5 minutes (HttpConnectionManager.stream_idle_timeout).
	StreamIdle time.Duration
	// UpstreamIdle is how long an unused upstream connection is kept, default
	// 1 hour (HttpProtocolOptions.idle_timeout).
	UpstreamIdle time.Duration
	// BriefIdle is how long one is kept that was opened for a Session.Brief, default 1 second.
	BriefIdle time.Duration
	// IdlePerEndpoint bounds the unused connections kept per endpoint and workload, default 256.
	IdlePerEndpoint int
}

// heads are those of a response head.
func (l *Limits) heads() h1.HeadLimits {
	return h1.HeadLimits{Bytes: l.HeadBytes, Fields: l.HeadFields}
}

func (l *Limits) setDefaults() {
	setDefault(&l.HeadBytes, limits.Downstream.HeadBytes)
	setDefault(&l.HeadFields, limits.Downstream.HeadFields)
	setDefault(&l.StreamIdle, limits.Downstream.Idle)
	setDefault(&l.HeadTimeout, min(limits.Downstream.Head, l.StreamIdle))
	setDefault(&l.UpstreamIdle, time.Hour)
	setDefault(&l.BriefIdle, time.Second)
	setDefault(&l.IdlePerEndpoint, 256)
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// Configuration is what was in force at a time. It does not change, and is safe for concurrent use.
type Configuration interface {
	// Routes returns the routes of a listener, which is called as the caller of Serve does.
	Routes(listener string) (*model.RouteTable, bool)
	// Match finds the route of a request in a table, or nil; it calls pause again and again, and may stop when that says that the client has gone.
	Match(table *model.RouteTable, r *matcher.Request, pause func() (gone bool)) *model.Route
	// TCP returns what a listener without HTTP does, nil for others.
	TCP(listener string) *model.TCPProxy
	// Inspection returns what the first bytes of a connection to a listener decide, nil where nothing. TCP does not say anything about
	// such a listener.
	Inspection(listener string) *model.Inspection
	// HasListener reports whether the listener is one of the configuration's, or of those that it serves until their connections have ended.
	HasListener(listener string) bool
	// View is that of a listener. It stays the same as long as connections to the listener are open.
	View(listener string) model.View
	// Key is that of the cluster that a view calls so, if there is one.
	Key(v model.View, name string) model.ClusterKey
	// Cluster returns the cluster with that key, or nil.
	Cluster(key model.ClusterKey) *model.Cluster
}

// Config is what a Proxy needs. Active and Balancer are required and must be safe for concurrent use.
type Config struct {
	// Active is the configuration in force. A request has its route and its clusters from the same one.
	Active func() Configuration
	// AwaitSwitch waits for a configuration that is being put in force, if there is one: clients are led to its listeners a moment before it is Active. May be
	// nil: then Active has the listeners of all clients.
	AwaitSwitch func()
	Balancer    Balancer
	// Retrying begins to choose for the retries of a request, whose policy leaves priorities out behind so many attempts each
	// (Retry.AvoidPriorities). May be nil: then retries go where other requests go.
	Retrying func(cluster model.ClusterKey, criteria model.Metadata, frequency uint32) RetryBalancer
	// Named returns the endpoint of a cluster at an address, counted as busy, and its health as the configuration and what is known of it say.
	// May be nil: none has a name.
	Named func(cluster *model.Cluster, address string) (e ChosenEndpoint, health model.HealthStatus, ok bool)
	// Loads are the requests in flight that the fast path counts as well; nil: it counts none.
	Loads Loads
	// Dial connects to an endpoint from the network namespace of a workload, which fails with ErrWorkloadLeft once that has left; nil means from this
	// process's, for its own clients alone. Connections of one workload serve no request of another.
	Dial func(ctx context.Context, from workload.ID, endpoint netip.AddrPort) (net.Conn, error)
	// DialInner connects to a listener of this process, which is at an endpoint's address. May be nil: no endpoint is one (InnerPicked).
	DialInner func(ctx context.Context, endpoint netip.AddrPort, from upstream.Origin) (InnerConn, error)
	// Circled is told of a request that was given up since it has passed MaxDepth listeners of this process, and was to come to another one. It
	// must not block; may be nil.
	Circled func(cluster model.ClusterKey, endpoint netip.AddrPort)
	// Secure shakes hands on a connection that Dial has made; it owns the connection, and closes it when it fails. Nil: there are no endpoints that ask for it.
	Secure func(ctx context.Context, conn net.Conn, to Target) (net.Conn, error)
	// Logger for unexpected states; never for single requests. nil discards.
	Logger *slog.Logger
	// Observer is told of every request; may be nil.
	Observer Observer
	// Crashes are the panics of code that serves one connection; nil: the proxy has its own.
	Crashes *crash.Log
	Limits  Limits
	// Requests has an entry for each request in progress, and each connection without HTTP, by the workload of its client: a request that is refused is
	// answered 503, such a connection closes. nil: they have no bound.
	Requests *quota.Table[workload.ID]
	// Ledger counts requests and their bytes by workload and cluster. nil: nothing does.
	Ledger *usage.Ledger
	// Idle has one for each idle connection to an endpoint: one that is refused takes the place of another one of its workload. nil: they have no bound in all.
	Idle *quota.Table[workload.ID]
	// Memory has one for each block of memory, of h1.BlockSize bytes, that a request takes beyond what each has anyway: for a long head, and for a body that may be
	// sent again. A head that is refused is answered 503, and a body is not kept then. nil: they have no bound in all.
	Memory *quota.Table[workload.ID]
}

// Proxy serves all listeners. It is safe for concurrent use.
type Proxy struct {
	config   Config
	conns    *conns.Pool
	counters Counters
	quotas   *quotas
	breakers *policy.CircuitBreakers

	// base ends dials when the proxy is closed.
	base   context.Context
	stop   context.CancelFunc
	closed atomic.Bool // no new calls; responses tell clients to close
	// draining makes responses tell clients to close.
	draining atomic.Bool

	mu    sync.Mutex // orders calls.Add before calls.Wait
	calls sync.WaitGroup
}

// New returns a Proxy. Close or Shutdown releases its upstream connections.
func New(config Config) *Proxy {
	config.Limits.setDefaults()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Crashes == nil {
		config.Crashes = crash.New(config.Logger)
	}
	if config.Dial == nil {
		config.Dial = conns.Dial
	}
	p := &Proxy{config: config, quotas: newQuotas(&config)}
	p.config.Requests, p.config.Idle, p.config.Memory = p.quotas.requests, p.quotas.idle, p.quotas.memory
	p.breakers = policy.NewCircuitBreakers(p.config.Loads)
	p.base, p.stop = context.WithCancel(context.Background())
	p.conns = conns.New(p.config.connecting(p.base))
	return p
}

// Counters returns the proxy's live counters.
func (p *Proxy) Counters() *Counters { return &p.counters }

// ErrClosed is returned by Serve and Relay after Close or Shutdown.
var ErrClosed = errors.New("slow path is closed; the daemon is stopping")

// Shutdown lets the requests in progress finish: their responses tell clients
// to close. It returns when the last one has, or with ctx's error when ctx ends
// first. Calls to Serve and Relay that come later are refused.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.refuse()
	done := make(chan struct{})
	go func() { p.calls.Wait(); close(done) }()
	defer p.Close()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drain makes every response tell its client to close, and goes on serving.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Close closes idle upstream connections and ends pending dials. Requests in
// progress go on until their contexts end.
func (p *Proxy) Close() {
	p.refuse()
	p.stop()
	p.conns.Close()
}

// KeepConnections adds endpoints to those of which connections are kept when no request uses them, and closes such connections to those that are
// dropped. Before the first call those of all are kept, afterwards those of no other.
func (p *Proxy) KeepConnections(added, dropped []netip.AddrPort) { p.conns.KeepOnly(added, dropped) }

// Leave closes the idle connections of a workload that leaves, and keeps none of it from then on. Requests of its clients go on until they end.
func (p *Proxy) Leave(id workload.ID) {
	p.conns.Leave(id)
	p.quotas.leave(id)
}

// Join keeps idle connections of a workload from now on, and has it share what the proxy has with the others: what it has counts in an account.
func (p *Proxy) Join(id, account workload.ID) {
	p.quotas.join(id, account)
	p.conns.Join(id, account)
}

// ErrWorkloadLeft is Config.Dial's error where nothing can be connected from the client's network namespace.
var ErrWorkloadLeft = conns.ErrWorkloadLeft

func (p *Proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed.Store(true)
}

// Session is what Serve must know about a connection.
type Session struct {
	// Listener is the one that the client connected to, as Configuration.Routes knows it.
	Listener string
	// Destination is the address that the client connected to. Clusters of type ORIGINAL_DST need it.
	Destination netip.AddrPort
	// Opened is when the client connected. Only listeners with an Inspection.Timeout need it.
	Opened time.Time
	// Stays tells whether a client is there still. One whose sending side is closed has gone unless it is known to wait for its answer, as in Envoy all
	// have; any other stays unless it is known to have gone. nil: nothing is known.
	Stays func() bool
	// Gone tells whether a client that has closed its sending side is known to have closed altogether: then its tunnel ends at once.
	// nil: of none is that known.
	Gone func() bool
	// Workload is the client's network namespace, and Account that by which what its maker has is counted. Where From is set that says whose.
	Workload, Account workload.ID
	// Ticket to serve the connection, which yields it at the end; nil: it never waits.
	Ticket *shares.Ticket
	// Claim for the first request. It is used if the request's route has that
	// cluster; in any case Endpoint.Done is called.
	Claim *Claim
	// Fails: the first request has come to no endpoint by the rules of balancing. Drawn again, less would fail than are to.
	Fails bool
	// From says whose the request is that the connection carries, where it leads from one listener of this process to another; nil: its client's.
	From func() upstream.Origin
	// Requests is how many the connection has carried before, on either path.
	Requests uint32
	// Closing tells whether the answer to the current request is to be the last. May be nil: it is not.
	Closing func() bool
	// Draw is the random number by which the first request was routed before, 0 for none. Another one would
	// give routes with a fraction more than their share.
	Draw uint64
	// Resumed is the first request where the fast path has begun to serve it; nil: all are read from the connection.
	Resumed *ResumedRequest
	// Brief: the requests would not be here if the fast path had had a connection idle, and it opens one now. What is opened here is not needed
	// for long: of thousands of endpoints it would double the connections.
	Brief bool
}

// Result tells what became of a connection.
type Result struct {
	// Quiet: the connection is open and idle, nothing is buffered. Otherwise
	// it is finished and has been closed.
	Quiet bool
	// Consumed and Answered are the bytes read from and written to the
	// connection during the call.
	Consumed, Answered uint64
	// Requests is how many were read.
	Requests uint32
}

// Serve answers requests on conn until it is quiet or finished; in the latter
// case it has been closed in the way its client must see. A cancelled ctx
// aborts the connection. The error says why a connection was aborted; a client
// that closes, or gets a local reply, is none.
func (p *Proxy) Serve(ctx context.Context, conn net.Conn, s Session) (r Result, err error) {
	d := newDownstream(p, conn, s)
	defer d.release()
	if !p.enter() {
		conns.Abort(conn)
		return Result{}, ErrClosed
	}
	defer p.leave()
	release := context.AfterFunc(ctx, func() { conns.Abort(conn) })
	defer release()
	defer p.config.Crashes.Recover("a connection", func() {
		d.crashed = true
		conns.Abort(conn)
		r, err = Result{Consumed: d.in.Consumed, Requests: d.requests}, crash.Err
	})
	proxy, first, err := p.chosen(d)
	if err != nil {
		s.Claim.unused()
		_ = conn.Close()
		return Result{Consumed: d.in.Consumed}, err
	}
	if proxy != nil {
		s.Claim.unused()
		cluster := d.clusterNamed(proxy.Share(cmp.Or(s.Draw, rand.Uint64())).Name)
		d.active = nil // the connection may last much longer than the configuration is in force
		r, err = p.serveTCP(ctx, conn, s, proxy, cluster, first)
		p.counters.received.Add(r.Consumed)
		p.counters.sent.Add(r.Answered)
		return r, err
	}
	quiet, err := d.run(ctx)
	quiet = release() && quiet
	r = Result{Quiet: quiet, Consumed: d.in.Consumed, Answered: d.out.Sent(), Requests: d.requests}
	p.counters.received.Add(r.Consumed)
	p.counters.sent.Add(r.Answered)
	return r, err
}

func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return false
	}
	p.calls.Add(1)
	p.counters.active.Add(1)
	return true
}

// finish counts and reports a request that has ended.
func (p *Proxy) finish(r Report) {
	p.counters.count(r.Status, r.Flag)
	if p.config.Observer != nil {
		p.config.Observer.Observe(r)
	}
}

func (p *Proxy) leave() {
	p.counters.active.Add(-1)
	p.calls.Done()
}
