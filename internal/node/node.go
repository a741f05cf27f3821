// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/activate"
	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/adminserver"
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/delegate"
	"github.com/xlb-project/xlb/internal/dialer"
	"github.com/xlb-project/xlb/internal/guardctl"
	"github.com/xlb-project/xlb/internal/handback"
	"github.com/xlb-project/xlb/internal/healthctl"
	"github.com/xlb-project/xlb/internal/listeners"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/memory"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/nri"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/precedence"
	"github.com/xlb-project/xlb/internal/privilege"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/status"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/viewctl"
	"github.com/xlb-project/xlb/internal/views"
	"github.com/xlb-project/xlb/internal/workload"
)

// Options say what to run.
type Options struct {
	// ConfigPath is the file of the Envoy bootstrap; with ConfigText only a name for that.
	ConfigPath string
	// ConfigText is the bootstrap itself, in YAML; empty: it is in the file.
	ConfigText []byte
	// Node goes before what the bootstrap says of the node.
	Node config.NodeName
	// AdminAddressPath is a file to write the address of the admin API to, once that listens; "" is none.
	AdminAddressPath string
	// Cgroups are the cgroup v2 directories whose processes are balanced.
	Cgroups []string
	// AdminHosts are names by which the admin API may be asked for, beside addresses, localhost and that of Admin.
	AdminHosts []string
	// Admin is the address of the admin API; "" takes the configuration's, and AdminDefault when that has none.
	Admin string
	// AdminDefault may be "", which is no admin API. Nobody has asked for this address: where it cannot be had the daemon does without.
	AdminDefault string
	// NoAdmin takes neither.
	NoAdmin bool
	// Capabilities are those that the process keeps and lacks, to be shown; nil: that is not known.
	Capabilities []privilege.Capability
	// CapabilitiesError says why the process may have others, too, to be shown; nil: it has no others, or that is not known.
	CapabilitiesError error
	// FastPath off serves every request in user space.
	FastPath bool
	// SameHostTCP sends requests to endpoints on this host over TCP, as to those on others.
	SameHostTCP bool
	// WaitForLocks is for tests: see datapath.Options.
	WaitForLocks bool
	// RefuseWhenDown refuses connections to service addresses while the daemon starts, drains or is
	// silent.
	RefuseWhenDown bool
	// Auto lets the daemon do without the fast path, in whole or in part: on a kernel that cannot
	// run it, and after invariants were broken too often.
	Auto bool
	// EnvoyHeaders makes all listeners hops (config.EnvoyHeaders).
	EnvoyHeaders bool
	// Exclude are destinations that are not taken for one that a listener has for many, as 0.0.0.0 is.
	Exclude []netip.Prefix
	// CongestionControl of connections to endpoints; "" is the machine's.
	CongestionControl string
	// OtherNamespaces balances the processes of network namespaces other than the daemon's own, for which CAP_SYS_ADMIN is needed; NoOwnNamespace leaves
	// those of its own alone.
	OtherNamespaces, NoOwnNamespace bool
	// NamespaceDirectories hold names of network namespaces. One that gets a name there is joined before its first process connects. Empty: each is joined at its first connection.
	NamespaceDirectories []string
	// NRI is the socket by which a container runtime reports its pods; empty: the daemon connects to no runtime. OptionalNRI: there need be no runtime.
	NRI         string
	OptionalNRI bool
	// LabelledPods balances the processes of those pods alone whose labels ask for it, beside those of the daemon's own network namespace.
	LabelledPods bool
	// Delegate is an Envoy that runs beside the daemon; nil: there is no delegate.
	Delegate *Delegate
	// DrainTime bounds how long requests in flight may take at the end.
	DrainTime time.Duration
	// Views are the configurations of workloads that do not see the shared one; nil: all see that.
	Views *views.File
	// Build is this program, to be shown.
	Build  metrics.Build
	Logger *slog.Logger
	// OnStart is called when the log has said which build has started: what else is to be logged of the start comes behind that; nil: nothing is. A start that is refused
	// has one line, which says why.
	OnStart func()
	// LogLevel is that of the Logger, which the admin API changes.
	LogLevel *slog.LevelVar
}

// file is where the bootstrap is.
func (o *Options) file() source.File {
	return source.File{Path: o.ConfigPath, Text: o.ConfigText, Node: o.Node, EnvoyHeaders: o.EnvoyHeaders}
}

// Validate says whether a daemon could begin with these bootstraps, as far as that can be said of texts.
func Validate(o Options) error {
	_, err := o.load(context.Background())
	return err
}

// clientReceiveBuffer is SO_RCVBUF of clients' sockets in bytes, of which the kernel makes twice as much. It holds what a client may leave unread of a
// response (client_window of bpf/lib/config.h) and an eighth beside it: above that, redirected bytes wait for a timer tick.
const clientReceiveBuffer = 1280 << 10

// Node is a running daemon.
type Node struct {
	o   Options
	log *slog.Logger

	datapath *datapath.Datapath
	events   *datapath.Events
	reconcil *reconcile.Reconciler
	views    *viewctl.Controller // nil: there is the shared view alone
	// activator has what is in force, pools the endpoints of it.
	activator *activate.Activator
	pools     *activate.Pools
	selector  *selection.Selector
	handback  *handback.Handback
	pool      *pool.Pool
	anchors   *anchor.Set
	workloads *workload.Set
	// runtime is the connection to a container runtime, which reports its pods; nil: there is no connection. leaveRuntime ends it.
	runtime      *nri.Client
	leaveRuntime context.CancelFunc
	proxy        *slowpath.Proxy
	recorder     *metrics.Recorder
	crashes      *crash.Log
	dialer       *dialer.Dialer
	health       *healthctl.Manager
	guards       *guardctl.Controller
	bound        *listeners.Bound
	inner        *listeners.Inner    // for the activator, and for requests in circles
	delegate     *delegate.Manager   // nil: there is no delegate
	admin        *adminserver.Server // nil: there is no admin API, or not yet; guarded by source.Exclusive
	// source is where configurations come from. One change at a time comes into force: Sources.Exclusive has the lock.
	source *source.Sources
	status *status.Status

	ready       atomic.Pointer[error]
	unsupported string // why the kernel cannot run the fast path that was asked for; "": it can, or it was not
	scheduler   *shares.Scheduler
	ledger      *usage.Ledger

	// ending is closed when the daemon is to end.
	ending <-chan struct{}

	wg     sync.WaitGroup
	cancel context.CancelFunc
}

// UsageError says that the environment or the configuration does not allow what was asked for: nothing was started.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Run runs the daemon until ctx ends, then drains it. reload makes it read its file again.
func Run(ctx context.Context, o Options, reload <-chan os.Signal) error {
	boot, err := o.load(ctx)
	if errors.Is(err, shutdown.ErrEnding) {
		return nil
	}
	if err != nil {
		return &UsageError{err}
	}
	api, err := adminserver.Listen(ctx, o.adminServer(), boot.shared.Static)
	if err != nil {
		return &UsageError{err}
	}
	n, err := startWithFallback(ctx, o, boot)
	if err == nil {
		if err = n.beginDelegate(ctx, boot.shared); err != nil {
			err = errors.Join(err, n.close())
		}
	}
	if err != nil {
		return failedStart(errors.Join(err, api.Close()))
	}
	running, stop := context.WithCancel(context.Background())
	n.cancel = stop
	precedence.Take(n.log, func() time.Duration { return n.scheduler.Counts().Worked }, func(pace time.Duration, due func() bool, f func()) { n.runPeriodically(running, pace, due, f) })
	n.source.Begin(boot.shared, boot.others...)
	n.background(running, api)
	n.open(ctx)
	// To load the kernel programs takes some times what is needed from then on.
	memory.Return()
	n.serveReloads(ctx, reload)
	n.source.Stop()
	n.drain()
	n.endDelegate()
	n.health.Stop()
	n.source.Close()
	stop()
	n.leaveRuntime()
	n.wg.Wait()
	return n.close()
}

// failedStart is what Run returns where a start has failed, or ended.
func failedStart(err error) error {
	if errors.Is(err, shutdown.ErrEnding) {
		return shutdown.OtherErrors(err)
	}
	return &UsageError{err}
}

var errStarting = errors.New("starting: pools are being opened")

// startWithFallback starts without the fast path where that cannot be had, and may be done without.
func startWithFallback(ctx context.Context, o Options, boot *bootstraps) (*Node, error) {
	n, err := start(ctx, o, boot)
	if err == nil || !o.FastPath || !o.Auto || !datapath.FastPathUnsupported(err) {
		return n, err
	}
	why := strings.ReplaceAll(err.Error(), "\n", "; ")
	o.Logger.Warn("the kernel cannot run the fast path; every request is served in this process", "kernel", check.KernelRelease(), "why", why)
	o.FastPath = false
	n, err = start(ctx, o, boot)
	if n != nil {
		n.unsupported = why
	}
	return n, err
}

// start loads and attaches everything, with interception still off. On error nothing is left.
func start(ctx context.Context, o Options, boot *bootstraps) (*Node, error) {
	n := &Node{o: o, log: o.Logger, ending: ctx.Done(), recorder: metrics.NewRecorder(), crashes: crash.New(o.Logger), scheduler: newScheduler(), leaveRuntime: func() {}}
	n.source, n.inner = n.newSource(boot), listeners.NewInner(n.log)
	n.setReady(errStarting)
	// Nothing is attached yet: what is loaded when the daemon ends goes with the process.
	opened, ok := shutdown.Unless(n.ending, func() opening { return openDatapath(o) })
	if !ok {
		return nil, shutdown.ErrEnding
	}
	if opened.err != nil {
		return nil, opened.err
	}
	n.datapath = opened.datapath
	if err := n.build(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// newSource has configurations put in force by the node from now on.
func (n *Node) newSource(b *bootstraps) *source.Sources {
	return source.NewSources(source.Config{
		Logger: n.log, Version: n.o.Build.Version, Activate: func(cfg *model.Config) error { return n.activator.Activate(cfg) }, Spawn: n.spawn, NewTicker: n.newTicker, Took: n.tookBootstrap,
		Cluster: func(v model.View, name string) *model.Cluster {
			now := n.activator.Generation()
			return now.Cluster(now.Key(v, name))
		},
	}, b.shared, b.others...)
}

// opening is what has come of loading the kernel programs.
type opening struct {
	datapath *datapath.Datapath
	err      error
}

// openDatapath waits for the kernel's verifier, some seconds on a busy machine.
func openDatapath(o Options) opening {
	d, err := loadDatapath(o)
	return opening{d, err}
}

func loadDatapath(o Options) (*datapath.Datapath, error) {
	if err := check.Privileges(); err != nil {
		return nil, err
	}
	options := datapath.Options{FastPath: o.FastPath, ReceiveBuffer: clientReceiveBuffer, RefuseWhenDown: o.RefuseWhenDown, SameHostTCP: o.SameHostTCP, WaitForLocks: o.WaitForLocks, ReportNamespaces: o.OtherNamespaces}
	if o.FastPath {
		kernel, err := datapath.Probe()
		if err != nil {
			return nil, err
		}
		options.Kernel = kernel
	}
	return datapath.Load(options)
}

func (n *Node) build() error {
	d := n.datapath
	tgid, err := d.ThreadGroup()
	if err != nil {
		return err
	}
	namespace, err := netns.Cookie()
	if err != nil {
		return err
	}
	atomic.StoreUint32(&d.Shared.Control.DaemonTgid, tgid)
	atomic.StoreUint32(&d.Shared.Control.Draining, 1)
	n.beat()
	if err := d.Exclude(n.o.Exclude); err != nil {
		return err
	}
	n.views = n.newViews()
	n.reconcil = reconcile.New(d.Config, d.Shared, n.log)
	n.activator = n.newActivator()
	n.dialer = n.newDialer()
	n.selector = n.newSelector()
	files, err := descriptors()
	if err != nil {
		return err
	}
	n.ledger = usage.NewLedger(maxDestinations)
	n.proxy = n.newProxy(files)
	own := workload.Own(namespace)
	n.workloads = n.newWorkloads(own, files)
	n.pools = n.newPools()
	n.health = healthctl.New(healthctl.Config{
		Shared: d.Shared, Logger: n.log, SetHealth: n.reconcil.SetHealth, Returned: func(endpoint uint32) { n.pool.Again(endpoint) },
		AwaitSecrets: n.source.AwaitSecrets, Dial: n.dialer.ForCheck, Spawn: n.spawn, OthersServed: n.workloads.HasOthers,
	})
	n.handback = n.newHandback()
	n.pool, err = pool.New(pool.Config{
		Shared: d.Shared, Sockets: d.Sockets, Ledger: n.ledger, Clients: n.handback, Logger: n.log, Own: own, NoHost: n.o.NoOwnNamespace, Released: n.pools.Closed,
		Refused: n.health.Refused, CongestionControl: n.o.CongestionControl, Partings: n.dialer.Partings(), Descriptors: maxISocks(files),
	})
	if err != nil {
		return err
	}
	n.anchors, err = anchor.New(anchor.Config{
		Shared: d.Shared, Sockets: d.Sockets, Handler: n.handback, Leases: n.pool, Logger: n.log, Scheduler: n.scheduler, Own: own, NoHost: n.o.NoOwnNamespace,
		MostConnections: maxConnections(files, d.Config.Sizes.Clients),
		FastPath:        n.o.FastPath, Limits: func(listener uint32) anchor.Limits { return n.activator.Generation().Limits(listener) }, Crashes: n.crashes,
	})
	if err != nil {
		return err
	}
	n.guards = n.newGuards()
	if n.events, err = d.Events(); err != nil {
		return err
	}
	if err := d.Attach(n.o.Cgroups); err != nil {
		return err
	}
	n.bound = n.newBound()
	if err := n.newRuntime(); err != nil {
		return err
	}
	n.status = n.newStatus()
	// A start that the kernel refuses ends in one line, which says why.
	SayBuild(n.log, n.o.Build)
	if n.o.OnStart != nil {
		n.o.OnStart()
	}
	n.followPods()
	if err := n.workloads.Scan(); err != nil {
		n.log.Warn("some processes could not be looked at; their network namespaces are served from their first connection on", "err", err)
	}
	if err := n.source.Activate(); err != nil {
		return err
	}
	// What is in the bootstrap has to be bound, as in Envoy; what comes later is tried again.
	n.source.Exclusive(func() { err = n.bound.Apply(n.activator.Generation().Config()) })
	return err
}

// close releases everything, in the order opposite to build.
func (n *Node) close() error {
	var err error
	n.source.Close()
	n.leaveRuntime()
	if n.health != nil {
		n.health.Stop()
		n.wg.Wait()
	}
	if n.datapath != nil {
		err = n.datapath.Detach()
	}
	if n.bound != nil {
		n.bound.Close()
	}
	// The pool ends what spills, which holds connections of clients.
	if n.pool != nil {
		err = errors.Join(err, n.pool.Close())
	}
	if n.anchors != nil {
		err = errors.Join(err, n.anchors.Close())
	}
	if n.workloads != nil {
		n.workloads.Close()
	}
	if n.proxy != nil {
		n.proxy.Close()
	}
	if n.events != nil {
		err = errors.Join(err, n.events.Close())
	}
	if n.datapath != nil {
		err = errors.Join(err, n.datapath.Close())
	}
	return err
}

// background starts what runs beside everything else.
func (n *Node) background(ctx context.Context, api *adminserver.Server) {
	n.runPeriodically(ctx, tendPace, func() bool { n.beat(); return n.mustTend() }, n.tend)
	n.runPeriodically(ctx, tendPace, n.reconcil.MustReclaim, n.reclaim)
	n.runPeriodically(ctx, sweepPace, func() bool { return true }, n.sweep)
	n.runPeriodically(ctx, memory.Pace, memory.IsExcessive, memory.Return)
	n.runPeriodically(ctx, listeners.Pace, n.bound.HasSockets, n.bound.Tend)
	if n.o.FastPath {
		left := n.datapath.NewSweeper(n.log)
		n.runPeriodically(ctx, datapath.SweepPace, left.Due, left.Sweep)
	}
	n.spawn(n.health.Run)
	n.spawn(func() { n.workloads.Run(ctx) })
	n.spawn(func() { n.guards.Run(ctx) })
	// Before there is any other configuration, which may want its address.
	if api != nil {
		n.beginAdmin(ctx, api)
	}
	n.source.Start(ctx)
	go n.followEvents()
}

func (n *Node) beginAdmin(ctx context.Context, api *adminserver.Server) {
	handler := n.source.WithClientStatus(admin.NewHandler(n.status, n.status.Metrics()))
	n.source.Exclusive(func() {
		n.admin = api
		n.spawn(api.Serve(ctx, handler))
	})
}

// adminServer says where the admin API is to listen.
func (o *Options) adminServer() adminserver.Options {
	return adminserver.Options{Address: o.Admin, Default: o.AdminDefault, None: o.NoAdmin, Hosts: o.AdminHosts, AddressPath: o.AdminAddressPath, Logger: o.Logger}
}

func (n *Node) spawn(f func()) {
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		f()
	}()
}

// tendPace is how often the daemon shows that it lives, which is well below the kernel programs' limit of three seconds, and looks for
// what is to be tended, or given up.
const tendPace = reconcile.RegroupPace

// mustTend reports whether there is something to tend. It does not wait.
func (n *Node) mustTend() bool { return n.pools.MustRelease() || n.reconcil.MustRegroup() }

// tend lets the weights of endpoints that have just become healthy grow, tries again what there was no room for, and gives up removed endpoints.
func (n *Node) tend() {
	if err := n.reconcil.Regroup(); err != nil {
		n.log.Warn("applying slow starts or health changes failed; will retry", "err", err)
	}
	n.pools.Release()
}

// reclaim waits for the kernel, which takes seconds where other work takes all the time of the processors: nothing else may wait for it.
func (n *Node) reclaim() {
	if err := n.reconcil.Reclaim(); err != nil {
		n.log.Warn("reclaiming entries of the previous configuration failed; will retry", "err", err)
	}
}

// runPeriodically asks at that pace whether f is to be called, which happens in a goroutine of its own, until ctx ends. due must not wait: a daemon with nothing to do
// wakes for that alone.
func (n *Node) runPeriodically(ctx context.Context, pace time.Duration, due func() bool, f func()) {
	call, stop := n.newTicker(pace, due)
	n.spawn(func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-call:
				f()
			}
		}
	})
}

// newTicker is poller.NewTicker. The pool has beats as well: without them there is no daemon.
func (n *Node) newTicker(pace time.Duration, due func() bool) (call <-chan struct{}, stop func()) {
	call, stop, err := poller.NewTicker(pace, due)
	if err != nil {
		n.log.Error("periodic tasks are disabled", "err", err)
	}
	return call, stop
}

func (n *Node) beat() {
	atomic.StoreUint64(&n.datapath.Shared.Control.HeartbeatNs, uint64(maps.Now()))
}

// followEvents ends when the event stream is closed.
func (n *Node) followEvents() {
	for {
		e, more, err := n.events.Next()
		if !more && err == nil {
			return
		}
		if err != nil {
			n.log.Error("event stream has ended; pools grow only by their own sweep", "err", err)
			return
		}
		switch maps.EventKind(e.Kind) {
		case maps.EventHandover:
			n.anchors.Announced()
		case maps.EventArrived:
			n.anchors.Arrived()
		case maps.EventPoolLow:
			n.pool.Grow(workload.ID(e.Detail), e.Endpoint, e.Lease)
		case maps.EventSlotBroken:
			n.pool.Broken(e.Slot)
		case maps.EventSpilled:
			n.pool.Spilled(e.Slot)
		case maps.EventOutlier:
			n.health.Reached(e.Endpoint, maps.Outlier(e.Detail))
		case maps.EventGuard:
			n.guards.Event(e)
		case maps.EventNamespace:
			n.workloads.Seen(e.Cookie, int(e.Detail))
		}
	}
}

// open begins to intercept, once the pools are open, and every endpoint has been asked for its health, or they have had their chance.
func (n *Node) open(ctx context.Context) {
	var views sync.WaitGroup
	if n.views != nil {
		views.Go(func() { n.views.Begin(ctx) })
	}
	n.source.Await(ctx, n.setReady)
	views.Wait()
	n.setReady(errStarting)
	n.awaitEndpoints(ctx, n.pool.Ready)
	atomic.StoreUint32(&n.datapath.Shared.Control.Draining, 0)
	n.bound.Open()
	n.setReady(nil)
	n.log.Info("intercepting connections", "cgroups", n.o.Cgroups, "fast_path", n.o.FastPath)
}

// awaitEndpoints returns when each endpoint is known and has been asked for its health, and are is true, or they have had their chance.
func (n *Node) awaitEndpoints(ctx context.Context, are func() bool) {
	const patience = 5 * time.Second
	deadline := time.Now().Add(patience + n.health.FirstResults())
	for (!n.source.Resolved() || !are() || !n.health.Warm()) && time.Now().Before(deadline) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// drain ends interception, lets requests in flight finish, and returns when they have or their time is up.
func (n *Node) drain() {
	n.setReady(errors.New("draining: the daemon is ending"))
	n.log.Info("draining", "at_most", n.o.DrainTime)
	atomic.StoreUint32(&n.datapath.Shared.Control.Draining, 1)
	closed := make(chan struct{})
	n.spawn(func() {
		defer close(closed)
		n.bound.Close()
	})
	n.proxy.Drain()
	if err := n.reconcil.Unlink(n.o.RefuseWhenDown); err != nil {
		n.log.Warn("requests may still take the fast path", "err", err)
	}
	began := time.Now()
	n.anchors.Drain(max(1, min(quietEnd, n.o.DrainTime/2)))
	for time.Since(began) < n.o.DrainTime {
		time.Sleep(5 * time.Millisecond)
		if open := n.anchors.Stats().Open; open == 0 && !n.busy() && time.Since(began) >= lastArrivals && isClosed(closed) {
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// quietEnd is how long a connection is without a request when it closes at the end. The answer to a request says that its connection closes; but one
// that was given before could not, and its client sends the next request as soon as it runs. On a busy machine it waits for that.
const quietEnd = time.Second

// lastArrivals is how long the daemon waits for connections that began to be made just before none were any more.
const lastArrivals = 50 * time.Millisecond

// busy reports whether any request is in flight, on either path. Connections that went straight to their endpoint are not ours to wait for.
func (n *Node) busy() bool {
	return n.datapath.Shared.AnyLeased() || n.anchors.Active() > 0
}

func (n *Node) setReady(err error) { n.ready.Store(&err) }

func (n *Node) newStatus() *status.Status {
	c := status.Config{
		Build: n.o.Build, FastPath: n.o.FastPath, Unsupported: func() string { return n.unsupported }, Ready: func() error { return *n.ready.Load() }, Datapath: n.datapath,
		Reconciler: n.reconcil, Activator: n.activator, Source: n.source, Anchors: n.anchors, Bound: n.bound, Pool: n.pool, Proxy: n.proxy, Handback: n.handback,
		Health: n.health, Guards: n.guards, Scheduler: n.scheduler, Crashes: n.crashes, Workloads: n.workloads, Quotas: n.quotas(), Carried: n.carried, OpenTo: n.dialer.Open, Logger: n.log, Level: n.o.LogLevel, Recorder: n.recorder,
	}
	c.CapabilitiesError = n.o.CapabilitiesError
	for _, one := range n.o.Capabilities {
		c.Capabilities = append(c.Capabilities, admin.Capability(one))
	}
	if n.runtime != nil {
		c.NRI = n.runtime.State
	}
	c.Delegate = n.delegateStatus
	n.showViews(&c)
	return status.New(c)
}
