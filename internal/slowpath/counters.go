// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
)

// Flag says why a request was not simply answered by an endpoint. The names
// are Envoy's response flags (access log operator %RESPONSE_FLAGS%).
type Flag uint8

const (
	// FlagNone: an endpoint answered.
	FlagNone Flag = iota
	// FlagNoRoute (NR): no virtual host or route matches.
	FlagNoRoute
	// FlagNoCluster (NC): the route names a cluster that does not exist.
	FlagNoCluster
	// FlagNoHealthyUpstream (UH): the cluster has no usable endpoint.
	FlagNoHealthyUpstream
	// FlagUpstreamConnectFailure (UF): no endpoint could be connected to.
	FlagUpstreamConnectFailure
	// FlagUpstreamTermination (UC): the endpoint ended the connection early.
	FlagUpstreamTermination
	// FlagUpstreamTimeout (UT): the route's timeout expired.
	FlagUpstreamTimeout
	// FlagUpstreamProtocolError (UPE): the endpoint did not speak HTTP.
	FlagUpstreamProtocolError
	// FlagDownstreamProtocolError (DPE): the client did not speak HTTP.
	FlagDownstreamProtocolError
	// FlagDownstreamTermination (DC): the client went away.
	FlagDownstreamTermination
	// FlagStreamIdle (SI): neither side made progress for too long.
	FlagStreamIdle
	// FlagFaultInjected (FI): the configuration asks for this answer.
	FlagFaultInjected
	// FlagRetryLimit (URX): an endpoint answered, and the last retry that the policy allows had been made.
	FlagRetryLimit
	// FlagUpstreamOverflow (UO): a circuit breaker of the cluster was open.
	FlagUpstreamOverflow
	// FlagUpstreamMaxDuration (UMSDR): the cluster's time for an attempt was over.
	FlagUpstreamMaxDuration
	// FlagOverloadManager (OM): too many requests of the client's group waited, or of its workload were in progress.
	FlagOverloadManager
	flagCount
)

var flagNames = [flagCount]string{
	FlagNone: "-", FlagNoRoute: "NR", FlagNoCluster: "NC", FlagNoHealthyUpstream: "UH",
	FlagUpstreamConnectFailure: "UF", FlagUpstreamTermination: "UC", FlagUpstreamTimeout: "UT",
	FlagUpstreamProtocolError: "UPE", FlagDownstreamProtocolError: "DPE",
	FlagDownstreamTermination: "DC", FlagStreamIdle: "SI", FlagFaultInjected: "FI",
	FlagRetryLimit: "URX", FlagUpstreamOverflow: "UO", FlagUpstreamMaxDuration: "UMSDR",
	FlagOverloadManager: "OM",
}

// String returns Envoy's short name of the flag.
func (f Flag) String() string { return flagNames[f] }

// Flags lists every flag, for exporters.
func Flags() []Flag {
	all := make([]Flag, flagCount)
	for i := range all {
		all[i] = Flag(i)
	}
	return all
}

// maxStatus bounds the status codes counted one by one (RFC 9110 section 15).
const maxStatus = 600

// Counters count what one Proxy has done. All methods are safe for concurrent
// use. The zero value is ready.
type Counters struct {
	status   [maxStatus]atomic.Uint64
	flags    [flagCount]atomic.Uint64
	received atomic.Uint64
	sent     atomic.Uint64
	active   atomic.Int64
}

// Status returns how many requests were answered with a status code; 0 counts
// those that got no answer.
func (c *Counters) Status(code int) uint64 {
	if code < 0 || code >= maxStatus {
		return 0
	}
	return c.status[code].Load()
}

// Flag returns how many requests ended for that reason.
func (c *Counters) Flag(f Flag) uint64 { return c.flags[f].Load() }

// Received is the number of bytes read from clients.
func (c *Counters) Received() uint64 { return c.received.Load() }

// Sent is the number of bytes written to clients.
func (c *Counters) Sent() uint64 { return c.sent.Load() }

// Active is the number of Serve and Relay calls in progress.
func (c *Counters) Active() int64 { return c.active.Load() }

func (c *Counters) count(status int, flag Flag) {
	if status < 0 || status >= maxStatus {
		status = 0
	}
	c.status[status].Add(1)
	c.flags[flag].Add(1)
}

// Report describes one finished request.
type Report struct {
	Listener string
	// Cluster and Endpoint are zero when none was chosen.
	Cluster  model.ClusterKey
	Endpoint netip.AddrPort
	// Status sent to the client; 0: none.
	Status   int
	Flag     Flag
	Duration time.Duration
	// Resumed: the fast path has counted the request, and its first attempt. Sent: the proxy has made another one.
	Resumed, Sent bool
}

// Observer is told of every request when it has ended. It is called on the
// request's goroutine and must not block.
type Observer interface{ Observe(Report) }

// Load is how many requests an account has in flight to a cluster, which the fast path counts as well. Loads of the same count are equal.
type Load = policy.Load

// Loads are those of all accounts and clusters.
type Loads = policy.Loads

// CountTimeout counts a request of the fast path that the time of its route has ended.
func (p *Proxy) CountTimeout(cluster model.ClusterKey) { p.breakers.Tally(cluster).TimedOut() }

// Sweep forgets accounts that have no request here, and the clusters that Configuration.Cluster does not find any more; what they have counted is lost, as in Envoy.
func (p *Proxy) Sweep() {
	p.breakers.Sweep(func(cluster model.ClusterKey) bool { return p.config.Active().Cluster(cluster) != nil })
}

// Stats are Envoy's statistics of a cluster's circuit breakers, retries and timeouts, by their names below cluster.<name>, as they are at this moment.
func (p *Proxy) Stats() func(c *model.Cluster) map[string]uint64 { return p.breakers.Stats() }
