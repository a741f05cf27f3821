// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// memory is what is known of the names of clusters while one Run follows another. Without it a change of one cluster would have all names looked
// up anew, and a name that does not answer then would keep what its neighbours were before.
type memory struct {
	mu       sync.Mutex // guards the rest
	clusters map[string]*known
}

// known is what is known of one cluster's hosts, by name.
type known struct {
	cluster *model.Cluster
	hosts   map[string]host
}

// states are those of clusters, with what is known of them; none once ctx has ended, for then another Run may have asked. Other clusters, and hosts
// that a cluster no longer has, are forgotten.
func (m *memory) states(ctx context.Context, clusters []*model.Cluster) (states []*state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	before := m.clusters
	m.clusters = map[string]*known{}
	for _, c := range clusters {
		s := newState(c, before[c.Name].of(c))
		k := &known{cluster: c, hosts: map[string]host{}}
		for name, h := range s.hosts {
			k.hosts[name] = *h
		}
		m.clusters[c.Name] = k
		states = append(states, s)
	}
	return states
}

// of returns what is known of the hosts of c, which may have changed. Names that are asked for in another way are due; until there is an answer
// their addresses stand.
func (k *known) of(c *model.Cluster) map[string]host {
	if k == nil {
		return nil
	}
	hosts := maps.Clone(k.hosts)
	if k.cluster.DNSRefresh == c.DNSRefresh && k.cluster.Discovery == c.Discovery && reflect.DeepEqual(k.cluster.DNS, c.DNS) {
		return hosts
	}
	for name, h := range hosts {
		h.due, h.failures = time.Time{}, 0
		hosts[name] = h
	}
	return hosts
}

// keep remembers what has been learned of a host, unless ctx has ended.
func (m *memory) keep(ctx context.Context, cluster string, h host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		m.clusters[cluster].hosts[h.name] = h
	}
}
