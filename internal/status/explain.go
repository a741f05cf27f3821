// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/workload"
)

// The kernel takes whatever a query may have.
const _ = uint(datapath.MaxExplained - explain.MaxHead)

// errReplaced says that the configuration of an account is no longer in force.
var errReplaced = errors.New("the configuration was replaced")

// Explain implements admin.Source. Configuration and maps are those of one moment.
func (s *Status) Explain(q *explain.Query) (*explain.Answer, error) {
	for {
		snapshot, err := s.metrics.Snapshot()
		if err != nil {
			return nil, err
		}
		now := s.cfg.Activator.Generation()
		answer, err := explain.Explain(&explain.State{
			Config: now.Config(),
			Notes:  now.Notes(),
			Decide: func(listener *model.Listener, r *matcher.Request, head []byte) (explain.Decision, error) {
				return s.decideIn(now, listener, r.Draw, head)
			},
			Endpoints: func(cluster model.ClusterKey) ([]explain.Endpoint, error) {
				return endpointsOf(snapshot, now.Cluster(cluster), cluster, s.cfg.FastPath), nil
			},
			Workload: s.explainedWorkload,
			Views:    s.views(now.Config()),
		}, q)
		if !errors.Is(err, errReplaced) {
			return answer, err
		}
	}
}

// explainedWorkload is the network namespace with that inode number; nil: the daemon does not know it.
func (s *Status) explainedWorkload(netns uint64) *explain.Workload {
	infos := s.cfg.Workloads.List()
	at := slices.IndexFunc(infos, func(i workload.Info) bool { return i.Inode == netns })
	if at < 0 {
		return nil
	}
	i, id := &infos[at], uint32(infos[at].ID)
	return &explain.Workload{Netns: netns, ID: &id, Name: nameOf(i), State: workloadStates[i.State], Why: i.Why, Balanced: i.State == workload.Served, View: s.viewName(i.View)}
}

// decideIn asks the kernel while a configuration is in force. Only that keeps the configuration from being replaced,
// for which the slow path's requests would wait: an account of ten thousand routes takes its time.
func (s *Status) decideIn(now *generation.Generation, listener *model.Listener, draw uint64, head []byte) (d explain.Decision, err error) {
	if !s.cfg.Activator.While(now, func() { d, err = s.decide(listener, draw, head) }) {
		return explain.Decision{}, errReplaced
	}
	return d, err
}

// decide asks the kernel. The caller keeps the configuration in force.
func (s *Status) decide(l *model.Listener, draw uint64, head []byte) (explain.Decision, error) {
	if !s.cfg.FastPath {
		return explain.Decision{By: explain.ByNobody}, nil
	}
	d := explain.Decision{By: explain.ByKernel}
	number, known, err := s.cfg.Datapath.Config.VIPs.Lookup(compile.KeyOf(l))
	if err != nil {
		return d, err
	}
	if !known {
		d.Verdict = maps.HandoverListenerGone
		return d, nil
	}
	e, err := s.cfg.Datapath.Explain(number, draw, head)
	if err != nil {
		return d, err
	}
	if d.Verdict = maps.Verdict(e.Verdict); d.Verdict == maps.VerdictOk && atomic.LoadUint32(&s.cfg.Datapath.Shared.Control.Guarded) != 0 {
		d.Verdict = maps.HandoverGuarded
	}
	if d.Verdict == maps.VerdictOk {
		d.Cluster, d.Criteria = s.clusterName(l.View, e.Cluster)
		d.Timeout = time.Duration(e.TimeoutNs)
	}
	return d, nil
}

// clusterName is what a view calls a cluster of the maps, one that should not be there too, and says whose subset it is.
func (s *Status) clusterName(v model.View, index uint32) (name string, criteria model.Metadata) {
	now := s.cfg.Activator.Generation()
	if key, criteria, ok := now.KeyOf(index); ok {
		return now.Config().In(v).NameOf(key), criteria
	}
	return fmt.Sprintf("number %d", index), ""
}

// endpointsOf are the candidates: those that have left the configuration get no request.
func endpointsOf(s *metrics.Snapshot, c *model.Cluster, cluster model.ClusterKey, fast bool) []explain.Endpoint {
	var list []explain.Endpoint
	known := map[netip.AddrPort]model.Endpoint{}
	if c != nil {
		for _, e := range c.Endpoints {
			known[netip.AddrPortFrom(e.Address.Addr().Unmap(), e.Address.Port())] = e
		}
	}
	for i := range s.Clusters {
		if s.Clusters[i].Key() != cluster {
			continue
		}
		for j := range s.Clusters[i].Endpoints {
			e := &s.Clusters[i].Endpoints[j]
			if e.Gone {
				continue
			}
			row := explain.Endpoint{Cluster: cluster.Name, Address: e.Address.String(), Weight: e.Weight, State: e.State, Share: e.Share, TLS: known[e.Address].TLS != nil, Inner: known[e.Address].Inner}
			if fast {
				row.Idle = &e.Pool.Idle
			}
			list = append(list, row)
		}
	}
	return list
}
