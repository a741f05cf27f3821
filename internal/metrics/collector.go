// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Labels that several metrics have.
const (
	clusterLabel  = "envoy_cluster_name"
	endpointLabel = "endpoint"
	reasonLabel   = "reason"
)

// The metrics, in the order in which a reader asks for them.
var (
	buildInfo = describe("xlb_build_info",
		"1, of the program that runs: its version, the commit that it was built from, empty where the build did not record that, and the version of Go.", "version", "revision", "goversion")
	requestsTotal = describe("xlb_requests_total",
		"Requests by the path that served them: fast when the kernel sent it, slow when the daemon's proxy did.", "path")
	handoversTotal = describe("xlb_handovers_total",
		"Requests that the kernel declined to the slow path, by reason.", reasonLabel)
	spillsTotal = describe("xlb_spills_total",
		"Responses that continued, or went altogether, through the daemon, by reason.", reasonLabel)
	resentTotal = describe("xlb_resent_total",
		"Requests that were sent again because their endpoint had closed the connection before it saw them.")
	panicsTotal = describe("xlb_request_panics_total",
		"Panics of the daemon's own code that have ended the client's connection, or the copy of a request, that it served. Each is a fault of XLB: the log has the stack.")
	heldBackTotal = describe("xlb_isocks_held_back_total",
		"Pooled connections that were not replaced at once, because clients had broken many in a short time.")
	slowRequestsTotal = describe("xlb_slow_requests_total",
		"Requests that ended on the slow path, by Envoy's response flag; - when an endpoint answered.", "flag")
	slowWorkTotal = describe("xlb_slow_work_total",
		"What the daemon does for clients, in turns: requests begun, requests refused with 503 because too many of their pod, or cgroup of the host, waited, turns waited for, and turns ended for being too long.", "what")
	slowWorkSeconds = describe("xlb_slow_work_seconds_total",
		"Time of all turns together.")
	slowWorkWaiting = describe("xlb_slow_work_waiting",
		"Who waits for a turn at the moment.")
	slowWorkTenants = describe("xlb_slow_work_tenants",
		"Pods, cgroups of the host, and addresses of other hosts that have a turn or wait for one at the moment.")
	verdictsTotal = describe("xlb_verdicts_total",
		"Exits of the kernel programs, by verdict.", "verdict")
	guardTotal = describe("xlb_guard_total",
		"Invariants of exchanges that kernel programs found broken, by which.", "what")
	guarded = describe("xlb_guarded",
		"What is off the fast path because of broken invariants: clients' connections, endpoints, or 1 for the whole machine.", "scope")
	fastPath = describe("xlb_fast_path",
		"1 if the kernel programs that move requests are loaded, 0 with --fast-path=off, or where auto found a kernel that cannot run them.")
	bytesTotal = describe("xlb_bytes_total",
		"Bytes of HTTP heads and bodies, by direction and path.", "direction", "path")
	leasesActive = describe("xlb_leases_active",
		"Pooled connections now in use for a request.")
	poolISocks = describe("xlb_pool_isocks",
		"Pooled connections to an endpoint, by state.", clusterLabel, endpointLabel, "state")
	connectionsActive = describe("xlb_connections_active",
		"Intercepted client connections now open.")
	workloadsActive = describe("xlb_workloads_active",
		"Network namespaces other than the daemon's own whose processes are balanced.")
	workloadsTotal = describe("xlb_workloads_total",
		"Network namespaces other than the daemon's own that were joined, that could not be, that were left, since their last process had gone or their last connection behind a release, that an operator has released, that one has taken back, that the labels of their pods, or --pods=labelled, left out, and that were refused, since the pod, container or cgroup that made them has too many, by event.", "event")
	workloadJoinSeconds = describe("xlb_workload_join_seconds",
		"Time in which a network namespace other than the daemon's own was joined, from the kernel's report of its first connection, or from when it was found.")
	connectionsInterceptedTotal = describe("xlb_connections_intercepted_total",
		"Connections to service addresses that were intercepted.")

	clusterRequestsTotal = describe("envoy_cluster_upstream_rq_total",
		"Requests sent to endpoints of a cluster, on both paths.", clusterLabel)
	clusterCancelled = describe("xlb_cluster_cancelled_total",
		"Requests of a cluster whose client left before it had the whole response, on both paths. They are no errors of endpoints.", clusterLabel)
	clusterResponses = describe("envoy_cluster_upstream_rq_xx",
		"Responses of a cluster by class of their status, local replies included.", "envoy_response_code_class", clusterLabel)
	clusterRequestsActive = describe("envoy_cluster_upstream_rq_active",
		"Requests of a cluster in flight, on both paths.", clusterLabel)
	clusterConnectionsActive = describe("envoy_cluster_upstream_cx_active",
		"Connections open to endpoints of a cluster.", clusterLabel)
	clusterMembers = describe("envoy_cluster_membership_total",
		"Endpoints of a cluster.", clusterLabel)
	clusterLeftOut = describe("xlb_cluster_endpoints_left_out",
		"Endpoints of a cluster that get no requests, because XLB cannot speak to them as they expect, or since they lead in a circle, by reason.", clusterLabel, reasonLabel)
	clusterMembersHealthy = describe("envoy_cluster_membership_healthy",
		"Endpoints of a cluster that take requests.", clusterLabel)
)

// described collects what describe has made, for Describe.
var described []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, d)
	return d
}

// Collector is a prometheus.Collector over a Source and a Recorder. Safe for
// concurrent use.
type Collector struct {
	source   Source
	recorder *Recorder

	mu sync.Mutex
	// ledger is guarded by mu; so is reading the source, so that observations come
	// in the order in which they were made.
	ledger *ledger
}

// NewCollector returns a Collector. The recorder is what the slow path reports to.
func NewCollector(source Source, recorder *Recorder) *Collector {
	return &Collector{source: source, recorder: recorder, ledger: newLedger()}
}

// Observe brings the totals up to date. Call it before a new configuration takes effect:
// what endpoints counted since the last look would leave with them.
func (c *Collector) Observe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observe()
}

func (c *Collector) observe() []Cluster {
	clusters := c.source.Clusters()
	c.ledger.observeClusters(clusters)
	c.recorder.prune(clusters)
	return clusters
}

// observeKernel brings what the programs count up to date.
func (c *Collector) observeKernel() error {
	verdicts, err := c.source.Verdicts()
	if err != nil {
		return fmt.Errorf("count verdicts: %w", err)
	}
	c.ledger.observeVerdicts(verdicts)
	guards, err := c.source.Guards()
	if err != nil {
		return fmt.Errorf("count guards: %w", err)
	}
	c.ledger.observeGuards(guards)
	return nil
}

// Snapshot returns everything that was counted. With an error the verdicts and guards, and what
// is derived from them, are those of the last good look; the rest is right.
func (c *Collector) Snapshot() (*Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clusters := c.observe()
	err := c.observeKernel()

	s := &Snapshot{Clusters: make([]ClusterSnapshot, len(clusters))}
	s.countVerdicts(c.ledger)
	s.countGuards(c.ledger)
	s.Guarded, s.FastPath = c.source.Guarded(), c.source.FastPath()
	s.Connections.Active = c.source.Connections()
	s.SlowBytes.Request, s.SlowBytes.Response = c.source.SlowBytes()
	s.Resent, s.HeldBack, s.Panics = c.source.Resent(), c.source.HeldBack(), c.source.Panics()
	s.Workloads, s.NRI, s.Delegate = c.source.Workloads(), c.source.NRI(), c.source.Delegate()
	s.Quotas, s.SlowWork = c.source.Quotas(), c.source.SlowWork()
	s.Dynamic = c.source.Dynamic()
	s.Origins, s.BootstrapVersion = c.source.Origins(), c.source.BootstrapVersion()
	s.RouteTables, s.Secrets = c.source.Subscriptions()
	s.Requests.Slow, s.SlowFlags = c.recorder.totals()
	kernel := c.ledger.total()
	s.Requests.Fast = kernel.requests
	s.FastBytes = Bytes{Request: kernel.bytesSent, Response: kernel.bytesReceived}
	for i := range clusters {
		key := clusters[i].Key
		s.Clusters[i] = snapshotCluster(&clusters[i], c.ledger.clusters[key], c.recorder.cluster(key))
		for j := range s.Clusters[i].Endpoints {
			s.Leases += s.Clusters[i].Endpoints[j].Pool.Leased
		}
	}
	return s, err
}

// Handler serves the metrics, and those of the process and of the Go runtime, in
// Prometheus's formats.
func (c *Collector) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// One unreadable map must not hide the rest.
	return inForm(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s, err := c.Snapshot()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(verdictsTotal, err)
	}
	out := emitter(ch)
	b := c.source.Build()
	out.gauge(buildInfo, 1, b.Version, b.Revision, b.Go)
	out.all(s)
	// It takes a look at each connection, which a Snapshot is spared.
	out.workloads(c.source.WorkloadList())
}

// emitter writes metrics of a scrape.
type emitter chan<- prometheus.Metric

func (out emitter) counter(d *prometheus.Desc, value uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (out emitter) gauge(d *prometheus.Desc, value uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func (out emitter) seconds(d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (out emitter) histogram(d *prometheus.Desc, of *Durations) {
	buckets := make(map[float64]uint64, len(of.Bounds))
	for i, bound := range of.Bounds {
		buckets[bound] = of.Counts[i]
	}
	out <- prometheus.MustNewConstHistogram(d, of.Count, of.Sum, buckets)
}

func (out emitter) counters(d *prometheus.Desc, values map[string]uint64) {
	for label, n := range values {
		out.counter(d, n, label)
	}
}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (out emitter) all(s *Snapshot) {
	out.whole(s)
	clusters := observed(s.Clusters)
	for i := range clusters {
		out.cluster(&clusters[i])
	}
}

// whole writes what does not belong to a cluster.
func (out emitter) whole(s *Snapshot) {
	out.counter(requestsTotal, s.Requests.Fast, "fast")
	out.counter(requestsTotal, s.Requests.Slow, "slow")
	out.counters(handoversTotal, s.Handovers)
	out.counters(spillsTotal, s.Spills)
	out.counter(resentTotal, s.Resent)
	out.counter(heldBackTotal, s.HeldBack)
	out.counter(panicsTotal, s.Panics)
	out.counters(slowRequestsTotal, s.SlowFlags)
	out.counters(slowWorkTotal, s.SlowWork.Turns)
	out.seconds(slowWorkSeconds, s.SlowWork.Worked.Seconds())
	out.gauge(slowWorkWaiting, s.SlowWork.Waiting)
	out.gauge(slowWorkTenants, s.SlowWork.Tenants)
	out.counters(verdictsTotal, s.Verdicts)
	out.counters(guardTotal, s.Guards)
	for scope, n := range s.Guarded {
		out.gauge(guarded, n, scope)
	}
	out.gauge(fastPath, number(s.FastPath))
	out.counter(bytesTotal, s.FastBytes.Request, "request", "fast")
	out.counter(bytesTotal, s.FastBytes.Response, "response", "fast")
	out.counter(bytesTotal, s.SlowBytes.Request, "request", "slow")
	out.counter(bytesTotal, s.SlowBytes.Response, "response", "slow")
	out.gauge(leasesActive, s.Leases)
	out.gauge(connectionsActive, s.Connections.Active)
	out.gauge(workloadsActive, s.Workloads.Active)
	out.counter(workloadsTotal, s.Workloads.Joined, "joined")
	out.counter(workloadsTotal, s.Workloads.Failed, "failed")
	out.counter(workloadsTotal, s.Workloads.Left, "left")
	out.counter(workloadsTotal, s.Workloads.Released, "released")
	out.counter(workloadsTotal, s.Workloads.Rejoined, "rejoined")
	out.counter(workloadsTotal, s.Workloads.Excluded, "excluded")
	out.counter(workloadsTotal, s.Workloads.Refused, "refused")
	out.histogram(workloadJoinSeconds, &s.Workloads.JoinSeconds)
	out.quotas(s.Quotas)
	out.nri(s.NRI)
	out.delegate(s.Delegate)
	out.counter(connectionsInterceptedTotal, s.Connections.Intercepted)
	out.origins(s)
	out.subscriptions(s)
	out.dynamic(s.Dynamic)
}

// cluster writes what is of one, as observed has it.
func (out emitter) cluster(c *ClusterSnapshot) {
	out.counter(clusterRequestsTotal, c.Requests, c.StatName)
	out.counter(clusterCancelled, c.Cancelled, c.StatName)
	for i, n := range c.Responses {
		out.counter(clusterResponses, n, strconv.Itoa(i+1), c.StatName)
	}
	out.gauge(clusterRequestsActive, c.Outstanding(), c.StatName)
	out.gauge(clusterConnectionsActive, c.Connections(), c.StatName)
	total, healthy := c.Members()
	out.gauge(clusterMembers, total, c.StatName)
	out.gauge(clusterMembersHealthy, healthy, c.StatName)
	for reason, n := range c.LeftOut {
		out.gauge(clusterLeftOut, n, c.StatName, reason)
	}
	out.named(healthStats, c.Health, c.StatName)
	out.named(limitStats, c.Limits, c.StatName)
	if c.Updates != nil {
		out.updates(clusterUpdates, c.Updates, c.StatName)
	}
	for address, p := range c.pools() {
		out.gauge(poolISocks, p.Idle, c.StatName, address, "idle")
		out.gauge(poolISocks, p.Leased, c.StatName, address, "leased")
		out.gauge(poolISocks, p.Connecting, c.StatName, address, "connecting")
	}
}
