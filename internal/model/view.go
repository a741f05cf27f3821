// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
)

// View is the configuration that some workloads see. The zero value is the shared one, which all see that have none of their own. Names of listeners and
// clusters, and addresses of listeners, are unique within a view.
type View struct {
	// Number is what the kernel's maps call it, Name what the operator calls it. Both are unique.
	Number uint32
	Name   string
}

// Listener is the name of a listener of the view among those of all views.
func (v View) Listener(name string) ListenerName { return ListenerName{View: v.Name, Name: name} }

// Cluster is the key of the cluster that the view calls so.
func (v View) Cluster(name string) ClusterKey { return ClusterKey{View: v.Name, Name: name} }

// ListenerName tells the listeners of all views apart.
type ListenerName struct {
	// View is the name of the view, empty for the shared one.
	View, Name string
}

// String is how errors and notes call the listener.
func (n ListenerName) String() string { return fmt.Sprintf("listener %q%s", n.Name, ofView(n.View)) }

// ClusterKey tells the clusters of all views apart.
type ClusterKey struct {
	// View is the name of the view, empty for the shared one, Name what its routes call the cluster.
	View, Name string
}

// String is how errors and notes call the cluster.
func (k ClusterKey) String() string { return fmt.Sprintf("cluster %q%s", k.Name, ofView(k.View)) }

func ofView(name string) string {
	if name == "" {
		return ""
	}
	return " of view " + name
}

// Scope finds clusters by the names that a view has for them.
type Scope struct {
	config *Config
	view   View
}

// In is what the names of a view mean.
func (c *Config) In(v View) Scope { return Scope{config: c, view: v} }

// Cluster returns the cluster that the view calls so, or nil.
func (s Scope) Cluster(name string) *Cluster { return s.config.Cluster(s.view.Cluster(name)) }

// NameOf is what the view calls a cluster. That of another view has a name that no cluster of this one has.
func (s Scope) NameOf(key ClusterKey) string {
	if key.View == s.view.Name {
		return key.Name
	}
	return key.String()
}

// Views are the names of the views that listeners or clusters are of, but for the shared one, sorted.
func (c *Config) Views() []string {
	named := map[string]bool{}
	for _, l := range c.Listeners {
		named[l.View.Name] = true
	}
	for _, cl := range c.Clusters {
		named[cl.View.Name] = true
	}
	delete(named, "")
	return slices.Sorted(maps.Keys(named))
}

// SharedCluster is the key of a cluster of the shared view.
func SharedCluster(name string) ClusterKey { return View{}.Cluster(name) }

// SharedListener is the name of a listener of the shared view.
func SharedListener(name string) ListenerName { return View{}.Listener(name) }
