// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"slices"
	"strings"
)

// Stat is one number under a dotted name.
type Stat struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Stats lists the snapshot in the order of the names. Envoy's names where the meaning
// is the same, "xlb." for the rest.
func (s *Snapshot) Stats() []Stat {
	l := &list{}
	l.add("xlb.requests.fast", s.Requests.Fast)
	l.add("xlb.requests.slow", s.Requests.Slow)
	l.add("xlb.connections.active", s.Connections.Active)
	l.add("xlb.connections.intercepted", s.Connections.Intercepted)
	l.add("xlb.workloads.active", s.Workloads.Active)
	l.add("xlb.workloads.joined", s.Workloads.Joined)
	l.add("xlb.workloads.failed", s.Workloads.Failed)
	l.add("xlb.workloads.left", s.Workloads.Left)
	l.add("xlb.workloads.released", s.Workloads.Released)
	l.add("xlb.workloads.rejoined", s.Workloads.Rejoined)
	l.add("xlb.workloads.excluded", s.Workloads.Excluded)
	l.add("xlb.workloads.refused", s.Workloads.Refused)
	l.add("xlb.workloads.join.count", s.Workloads.JoinSeconds.Count)
	l.add("xlb.workloads.join.microseconds", uint64(s.Workloads.JoinSeconds.Sum*1e6))
	l.addQuotas(s.Quotas)
	l.addNRI(s.NRI)
	l.addDelegate(s.Delegate)
	l.add("xlb.leases.active", s.Leases)
	l.add("xlb.bytes.fast.request", s.FastBytes.Request)
	l.add("xlb.bytes.fast.response", s.FastBytes.Response)
	l.add("xlb.resent", s.Resent)
	l.add("xlb.isocks.held_back", s.HeldBack)
	l.add("xlb.request_panics", s.Panics)
	l.addAll("xlb.slow_work.", s.SlowWork.Turns)
	l.add("xlb.slow_work.microseconds", uint64(s.SlowWork.Worked.Microseconds()))
	l.add("xlb.slow_work.waiting", s.SlowWork.Waiting)
	l.add("xlb.slow_work.tenants", s.SlowWork.Tenants)
	l.add("xlb.bytes.slow.request", s.SlowBytes.Request)
	l.add("xlb.bytes.slow.response", s.SlowBytes.Response)
	l.addAll("", s.Dynamic)
	for i := range s.Origins {
		l.addOrigin(&s.Origins[i])
	}
	l.addSubscriptions(s)
	l.add("xlb.bootstrap.version", s.BootstrapVersion)
	l.addAll("xlb.handovers.", s.Handovers)
	l.addAll("xlb.spills.", s.Spills)
	l.addAll("xlb.verdicts.", s.Verdicts)
	l.addAll("xlb.guards.", s.Guards)
	l.addAll("xlb.guarded.", s.Guarded)
	l.add("xlb.fast_path", number(s.FastPath))
	l.addAll("xlb.slow_requests.", s.SlowFlags)
	clusters := observed(s.Clusters)
	for i := range clusters {
		l.addCluster(&clusters[i])
	}
	slices.SortFunc(l.stats, func(a, b Stat) int { return strings.Compare(a.Name, b.Name) })
	return l.stats
}

type list struct{ stats []Stat }

func (l *list) add(name string, value uint64) {
	l.stats = append(l.stats, Stat{Name: name, Value: value})
}

func (l *list) addAll(prefix string, values map[string]uint64) {
	for name, n := range values {
		l.add(prefix+name, n)
	}
}

func (l *list) addCluster(c *ClusterSnapshot) {
	prefix := "cluster." + c.StatName + "."
	l.add(prefix+"upstream_rq_total", c.Requests)
	l.add(prefix+"upstream_rq_active", c.Outstanding())
	l.add(prefix+"upstream_cx_active", c.Connections())
	for i, n := range c.Responses {
		l.add(fmt.Sprintf("%supstream_rq_%dxx", prefix, i+1), n)
	}
	total, healthy := c.Members()
	l.add(prefix+"membership_total", total)
	l.add(prefix+"membership_healthy", healthy)
	l.addAll(prefix, c.Health)
	l.addAll(prefix, c.Limits)
	if c.Updates != nil {
		l.addUpdates(prefix, c.Updates)
	}
}
