// SPDX-License-Identifier: Apache-2.0

package model

import "net/netip"

// Config is one complete, validated configuration.
type Config struct {
	// Admin is the address of the admin API; the zero value means none.
	Admin netip.AddrPort
	// AdminPipe is its Unix socket, in place of Admin.
	AdminPipe Pipe `json:",omitzero"`
	// Listeners in the order of the source; names and addresses are unique within a view.
	Listeners []*Listener
	// Clusters in the order of the source; keys are unique.
	Clusters []*Cluster
	// Names are what clusters are called in views, by the names of the views; see Scope.
	Names map[string]*Names `json:",omitempty"`
	// MaxConnections bounds the connections to bound sockets that are open at one time; 0 is no limit
	// (DownstreamConnectionsConfig.max_active_downstream_connections).
	MaxConnections uint64
	// Passed are listeners that are not put in force.
	Passed []Passed
	// Local is this node; nil: it is not known where it stands, and there is no zone-aware routing.
	Local *Local
}

// Cluster returns the cluster with that key, or nil.
func (c *Config) Cluster(key ClusterKey) *Cluster {
	for _, cl := range c.Clusters {
		if cl.Key() == key {
			return cl
		}
	}
	return nil
}

// Passed says that a part of the configuration is not put in force, and why. Nothing of it goes wrong: those whom it concerns are served
// as if XLB were not there.
type Passed struct {
	View     View
	Listener string
	Address  netip.AddrPort
	Why      string
}

// ListenersOf returns the listeners of a view, in the order of the source.
func (c *Config) ListenersOf(v View) []*Listener {
	var list []*Listener
	for _, l := range c.Listeners {
		if l.View.Name == v.Name {
			list = append(list, l)
		}
	}
	return list
}

// ListenerOf returns the listener that takes connections to an address from workloads with a view, or nil: as in Envoy the one at the address,
// else the one at 0.0.0.0 or :: with its port, else the one that takes all.
func (c *Config) ListenerOf(v View, to netip.AddrPort) *Listener {
	var found *Listener
	best := -1
	for _, l := range c.ListenersOf(v) {
		if closeness, ok := l.takes(to); ok && closeness > best {
			found, best = l, closeness
		}
	}
	return found
}

// PlainClusters are those that listeners without HTTP name, and no route.
func (c *Config) PlainClusters() map[ClusterKey]bool {
	plain := map[ClusterKey]bool{}
	for _, l := range c.Listeners {
		for _, p := range l.Proxies() {
			for _, share := range p.Clusters {
				plain[c.In(l.View).Key(share.Name)] = true
			}
		}
	}
	if len(plain) > 0 {
		c.eachRoute(func(v View, r *Route) {
			for _, share := range r.Clusters {
				delete(plain, c.In(v).Key(share.Name))
			}
		})
	}
	return plain
}

func (c *Config) eachRoute(f func(View, *Route)) {
	for _, l := range c.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				f(l.View, r)
			}
		}
	}
}

// TimedByCluster reports whether a cluster of a view's route limits how long a request may take.
func (c *Config) TimedByCluster(v View, r *Route) bool {
	return r.anyShare(func(share *WeightedCluster) bool {
		cl := c.In(v).Cluster(share.Name)
		return cl != nil && cl.MaxDuration > 0
	})
}
