// SPDX-License-Identifier: Apache-2.0

package config

import "github.com/xlb-project/xlb/internal/model"

// Subscription is where a cluster has its endpoints from, or a listener its routes, which are not with it.
type Subscription struct {
	// Cluster is the name of the cluster; of a listener it is empty, and Prefix its stat_prefix.
	Cluster, Prefix string
	// Name is what is asked for, File whom: one without a path is the control plane.
	Name string
	File File
}

// Subscriptions lists those of the last configuration. As in Envoy two listeners with one stat_prefix that have one table are one. Not safe for
// concurrent use.
func (b *Bootstrap) Subscriptions() []Subscription {
	var list []Subscription
	seen := map[Subscription]bool{}
	add := func(s Subscription) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	for _, k := range b.kept {
		for _, u := range k.uses {
			if u.kind == Assignments && k.cluster != nil {
				add(Subscription{Cluster: k.cluster.Name, Name: u.name, File: u.from.file})
			}
			if u.kind == Routes {
				k.addTables(u, add)
			}
		}
	}
	return list
}

// addTables adds those of the listeners that have that table.
func (k *kept) addTables(u lookedUp, add func(Subscription)) {
	for _, l := range k.listeners {
		if hasTable(l, u.name) {
			add(Subscription{Prefix: l.StatPrefix, Name: u.name, File: u.from.file})
		}
	}
}

func hasTable(l *model.Listener, name string) bool { return l.TCP == nil && l.Routes.Name == name }
