// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	stdmaps "maps"
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// statusClasses is the number of classes from 1xx to 5xx, serverErrors the index of 5xx.
const (
	statusClasses = 5
	serverErrors  = 4
)

// fast is what the kernel counts of an endpoint, or a sum of it.
type fast struct {
	requests, bytesSent, bytesReceived uint64
	// broken leases that the endpoint is to blame for, and others.
	broken, cancelled uint64
	responses         [statusClasses]uint64
}

func fastOf(e *maps.Endpoint) fast {
	// An entry that is cleared between the two stores of one end has the later one alone.
	cancelled := min(e.Cancelled, e.Broken)
	return fast{
		requests: e.Traffic.Requests, bytesSent: e.Traffic.BytesSent, bytesReceived: e.Traffic.BytesReceived, broken: e.Broken - cancelled, cancelled: cancelled,
		responses: e.Traffic.Responses,
	}
}

func (f *fast) add(o fast) {
	f.requests += o.requests
	f.bytesSent += o.bytesSent
	f.bytesReceived += o.bytesReceived
	f.broken += o.broken
	f.cancelled += o.cancelled
	for i := range f.responses {
		f.responses[i] += o.responses[i]
	}
}

// isBefore reports whether the kernel's entry was cleared since the later observation:
// an entry that is used again begins at zero.
func (f *fast) isBefore(later fast) bool {
	return f.requests < later.requests || f.bytesSent < later.bytesSent || f.bytesReceived < later.bytesReceived
}

// meter follows an endpoint's counters through clearings.
type meter struct {
	base, last fast
}

func (m *meter) observe(now fast) {
	if now.isBefore(m.last) {
		m.base.add(m.last)
	}
	m.last = now
}

func (m *meter) total() fast {
	sum := m.base
	sum.add(m.last)
	return sum
}

// identity tells an endpoint from another that had its index or its address before.
type identity struct {
	index   uint32
	address netip.AddrPort
}

func (e *Endpoint) identity() identity { return identity{e.Index, e.Address} }

// account is the ledger's page of one cluster.
type account struct {
	// views have the cluster.
	views     []string
	endpoints map[identity]*meter
	// left is the sum of the endpoints that have left the cluster.
	left fast
	// named are the counts of health and limits as they were last, inherited those of before they began anew, and of clusters in place of which the views have this
	// one.
	named, inherited map[string]uint64
}

func (a *account) total() fast {
	sum := a.left
	for _, m := range a.endpoints {
		sum.add(m.total())
	}
	return sum
}

// ledger keeps sums of counters that come and go with the configuration. A cluster's
// sum lives as long as the cluster, the sum over all for ever.
type ledger struct {
	clusters map[model.ClusterKey]*account
	// left is the sum of the clusters that have left the configuration.
	left     fast
	verdicts [maps.VerdictCount]counter
	guards   [maps.GuardCount]counter
}

// counter follows one number through clearings.
type counter struct {
	base, last uint64
}

func (c *counter) observe(now uint64) {
	if now < c.last {
		c.base += c.last
	}
	c.last = now
}

func (c *counter) total() uint64 { return c.base + c.last }

func newLedger() *ledger { return &ledger{clusters: map[model.ClusterKey]*account{}} }

func (l *ledger) observeVerdicts(counts []uint64) { observeAll(l.verdicts[:], counts) }

func (l *ledger) observeGuards(counts []uint64) { observeAll(l.guards[:], counts) }

func observeAll(counters []counter, now []uint64) {
	for i := range min(len(now), len(counters)) {
		counters[i].observe(now[i])
	}
}

func (l *ledger) observeClusters(clusters []Cluster) {
	present := make(map[model.ClusterKey]bool, len(clusters))
	for i := range clusters {
		present[clusters[i].Key] = true
		a := l.account(clusters[i].Key)
		a.observe(clusters[i].Endpoints)
		a.views = clusters[i].seenIn()
		a.observeNamed(sum(countsAmong(healthStats, clusters[i].Health), countsAmong(limitStats, clusters[i].Limits)))
	}
	for key, a := range l.clusters {
		if present[key] {
			continue
		}
		left := &l.left
		if heir := heirOf(key.Name, a.views, clusters); heir != nil {
			to := l.account(heir.Key)
			left, to.inherited = &to.left, sum(sum(to.inherited, a.inherited), a.named)
		}
		left.add(a.total())
		delete(l.clusters, key)
	}
}

// observeNamed notes the counts of health and limits. They begin anew where the cluster was gone, or not watched, since the last look: no look need have seen that.
func (a *account) observeNamed(now map[string]uint64) {
	for name, n := range a.named {
		if now[name] < n {
			a.inherited = sum(a.inherited, map[string]uint64{name: n})
		}
	}
	a.named = now
}

// countsAmong are those of some statistics that only grow.
func countsAmong(stats []namedStat, values map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for _, s := range stats {
		if n := values[s.name]; n > 0 && !s.gauge {
			out[s.name] = n
		}
	}
	return out
}

// withInherited adds to the statistics that a cluster has what was counted of them before.
func (a *account) withInherited(values map[string]uint64) map[string]uint64 {
	out := stdmaps.Clone(values)
	for name, n := range a.inherited {
		if _, is := out[name]; is {
			out[name] += n
		}
	}
	return out
}

func (l *ledger) account(key model.ClusterKey) *account {
	a := l.clusters[key]
	if a == nil {
		a = &account{endpoints: map[identity]*meter{}}
		l.clusters[key] = a
	}
	return a
}

func (a *account) observe(endpoints []Endpoint) {
	present := make(map[identity]bool, len(endpoints))
	for i := range endpoints {
		id := endpoints[i].identity()
		present[id] = true
		m := a.endpoints[id]
		if m == nil {
			m = &meter{}
			a.endpoints[id] = m
		}
		m.observe(fastOf(&endpoints[i].State))
	}
	for id, m := range a.endpoints {
		if !present[id] {
			a.left.add(m.total())
			delete(a.endpoints, id)
		}
	}
}

// total is the sum over all clusters there are and were.
func (l *ledger) total() fast {
	sum := l.left
	for _, a := range l.clusters {
		sum.add(a.total())
	}
	return sum
}
