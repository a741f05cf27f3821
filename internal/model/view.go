// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// ListenerName tells the listeners of all views apart.
type ListenerName struct {
	// View is the name of the view, empty for the shared one.
	View, Name string
}

// String is how errors and notes call the listener.
func (n ListenerName) String() string { return fmt.Sprintf("listener %q%s", n.Name, ofView(n.View)) }

// ClusterKey tells the clusters in force apart, those of all views. Which one a view means by a name, its Scope says.
type ClusterKey struct {
	// Name is what routes call the cluster. View tells it from others that are called so: it is the name of the view that had it first, and
	// the cluster's as long as some view has it. Behind a # there is a number where another one has the view's name already.
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

// Names are what a view's names of clusters mean, where that is not a cluster with the view's own name in its key. They are never changed.
type Names struct{ Keys map[string]ClusterKey }

// NoCluster is what a name means that is no cluster's, where another view has one with the key that it would have.
var NoCluster = ClusterKey{View: "#"}

// Scope finds clusters by the names that a view has for them. The zero value is that of the shared view, where no cluster is shared.
type Scope struct {
	config *Config
	view   View
}

// In is what the names of a view mean.
func (c *Config) In(v View) Scope { return Scope{config: c, view: v} }

// View is the view.
func (s Scope) View() View { return s.view }

// Key is that of the cluster that the view calls so, if there is one.
func (s Scope) Key(name string) ClusterKey {
	if names := s.names(); names != nil {
		if key, is := names.Keys[name]; is {
			return key
		}
	}
	return ClusterKey{View: s.view.Name, Name: name}
}

func (s Scope) names() *Names {
	if s.config == nil {
		return nil
	}
	return s.config.Names[s.view.Name]
}

// SameAs reports whether names of clusters are known to mean the same in two scopes of one view.
func (s Scope) SameAs(other Scope) bool {
	return s.view.Name == other.view.Name && s.names() == other.names()
}

// Cluster returns the cluster that the view calls so, or nil.
func (s Scope) Cluster(name string) *Cluster { return s.config.Cluster(s.Key(name)) }

// NameOf is what the view calls a cluster. That of another view has a name that no cluster of this one has.
func (s Scope) NameOf(key ClusterKey) string {
	if s.Key(key.Name) == key {
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
		for _, v := range cl.SeenIn() {
			named[v] = true
		}
	}
	delete(named, "")
	return slices.Sorted(maps.Keys(named))
}

// SharedCluster is the key of a cluster of the shared view.
func SharedCluster(name string) ClusterKey { return ClusterKey{Name: name} }

// SharedListener is the name of a listener of the shared view.
func SharedListener(name string) ListenerName { return View{}.Listener(name) }

// namedViews is how many views a text names.
const namedViews = 3

// ViewsText lists names of views for people, a few of many: "shop, bank, cart and 4 more". The shared one is "-".
func ViewsText(names []string) string {
	texts := make([]string, 0, namedViews)
	for _, name := range names[:min(len(names), namedViews)] {
		texts = append(texts, cmp.Or(name, "-"))
	}
	text := strings.Join(texts, ", ")
	if more := len(names) - len(texts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
