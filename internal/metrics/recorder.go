// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"net/netip"
	"sync"

	"github.com/xlb-project/xlb/internal/model"
)

// Request describes a request that the slow path has finished.
type Request struct {
	// Cluster and Endpoint are zero when none was chosen.
	Cluster  model.ClusterKey
	Endpoint netip.AddrPort
	// Status sent to the client; 0 is none.
	Status int
	// Flag is Envoy's response flag, "-" when an endpoint answered.
	Flag string
	// Resumed: the kernel had sent the request to an endpoint, and has counted it. Sent: the slow path has sent it again.
	Resumed, Sent bool
}

// flagConnectFailure says that no endpoint could be connected to, so the request
// never became one of an endpoint (Envoy's response flag UF).
const flagConnectFailure = "UF"

// flagClientGone says that the client left before it had the whole response (DC).
const flagClientGone = "DC"

// sent reports whether the request reached an endpoint.
func (r *Request) sent() bool { return r.Endpoint.IsValid() && r.Flag != flagConnectFailure }

// class is the index of the status class: 0 for 1xx to 4 for 5xx.
func (r *Request) class() (int, bool) {
	class := r.Status/100 - 1
	return class, class >= 0 && class < statusClasses
}

func (r *Request) isError() bool {
	class, ok := r.class()
	return ok && class == serverErrors
}

// Recorder counts the requests of the slow path. Safe for concurrent use.
type Recorder struct {
	mu sync.Mutex
	// total counts all requests, flags those by their response flag.
	total uint64
	flags map[string]uint64
	// clusters holds what belongs to a cluster of the configuration.
	clusters map[model.ClusterKey]*slowCluster
}

// slowCluster counts the slow path's requests of one cluster.
type slowCluster struct {
	requests uint64
	// cancelled are those whose client has left; of what the kernel had begun, and the slow path has not sent again, the kernel tells.
	cancelled uint64
	responses [statusClasses]uint64
	endpoints map[netip.AddrPort]slowEndpoint
	// views have the cluster.
	views []string
}

// slowEndpoint counts the slow path's requests of one endpoint. Those that are
// neither answered nor failed were given up by the client.
type slowEndpoint struct {
	requests, successes, errors uint64
}

// NewRecorder returns a Recorder that has counted nothing.
func NewRecorder() *Recorder {
	return &Recorder{flags: map[string]uint64{}, clusters: map[model.ClusterKey]*slowCluster{}}
}

// Record counts a request that has ended. A response that the kernel had asked for, and the daemon has only passed on, must not be recorded:
// the kernel has counted it.
func (r *Recorder) Record(q Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !q.Resumed {
		r.total++
		r.flags[q.Flag]++
	}
	if q.Cluster.Name == "" {
		return
	}
	c := r.clusters[q.Cluster]
	if c == nil {
		c = &slowCluster{endpoints: map[netip.AddrPort]slowEndpoint{}}
		r.clusters[q.Cluster] = c
	}
	c.record(q)
}

func (c *slowCluster) record(q Request) {
	class, answered := q.class()
	if answered {
		c.responses[class]++
	}
	if q.Flag == flagClientGone && (!q.Resumed || q.Sent) {
		c.cancelled++
	}
	if !q.sent() {
		return
	}
	e := c.endpoints[q.Endpoint]
	if !q.Resumed || q.Sent {
		c.requests++
		e.requests++
	}
	switch {
	case answered && class < serverErrors:
		e.successes++
	case answered:
		e.errors++
	}
	c.endpoints[q.Endpoint] = e
}

// Withheld counts a response at its endpoint alone: its client has got another one.
func (r *Recorder) Withheld(cluster model.ClusterKey, endpoint netip.AddrPort, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[cluster]
	if c == nil {
		c = &slowCluster{endpoints: map[netip.AddrPort]slowEndpoint{}}
		r.clusters[cluster] = c
	}
	e := c.endpoints[endpoint]
	if q := (Request{Status: status}); q.isError() {
		e.errors++
	} else {
		e.successes++
	}
	c.endpoints[endpoint] = e
}

// totals returns the number of requests and their response flags.
func (r *Recorder) totals() (uint64, map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, maps.Clone(r.flags)
}

// cluster returns a copy of a cluster's counts.
func (r *Recorder) cluster(key model.ClusterKey) slowCluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[key]
	if c == nil {
		return slowCluster{}
	}
	return slowCluster{requests: c.requests, cancelled: c.cancelled, responses: c.responses, endpoints: maps.Clone(c.endpoints)}
}

// prune forgets clusters and endpoints that the configuration no longer has, so that
// what is kept is bounded by it. Totals of a cluster stay as long as the cluster.
func (r *Recorder) prune(clusters []Cluster) {
	known := make(map[model.ClusterKey]map[netip.AddrPort]bool, len(clusters))
	for i := range clusters {
		known[clusters[i].Key] = addresses(clusters[i].Endpoints)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range clusters {
		if c := r.clusters[clusters[i].Key]; c != nil {
			c.views = clusters[i].seenIn()
		}
	}
	for key, c := range r.clusters {
		endpoints, ok := known[key]
		if !ok {
			r.bequeath(c, heirOf(key.Name, c.views, clusters))
			delete(r.clusters, key)
			continue
		}
		maps.DeleteFunc(c.endpoints, func(a netip.AddrPort, _ slowEndpoint) bool { return !endpoints[a] })
	}
}

// bequeath adds what was counted of a cluster that goes to that of the one that has taken its place for some view, if there is one. Needs mu.
func (r *Recorder) bequeath(c *slowCluster, heir *Cluster) {
	if heir == nil {
		return
	}
	to := r.clusters[heir.Key]
	if to == nil {
		to = &slowCluster{endpoints: map[netip.AddrPort]slowEndpoint{}, views: heir.seenIn()}
		r.clusters[heir.Key] = to
	}
	to.requests += c.requests
	to.cancelled += c.cancelled
	for i := range c.responses {
		to.responses[i] += c.responses[i]
	}
}

func addresses(endpoints []Endpoint) map[netip.AddrPort]bool {
	set := make(map[netip.AddrPort]bool, len(endpoints))
	for i := range endpoints {
		set[endpoints[i].Address] = true
	}
	return set
}
