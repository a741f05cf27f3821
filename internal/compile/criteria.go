// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// criteriaByName are the criteria that the routes of a listener have, by the names of clusters; those of the empty name are for every cluster of the view.
type criteriaByName map[string][]model.Metadata

// criteriaOf looks through all routes of a listener.
func criteriaOf(l *model.Listener) criteriaByName {
	set := criteriaByName{}
	for _, vh := range l.Routes.VirtualHosts {
		for _, r := range vh.Routes {
			set.addRoute(r)
		}
	}
	return set
}

func (s criteriaByName) addRoute(r *model.Route) {
	for i := range r.Clusters {
		c := &r.Clusters[i]
		s.add(c.Name, c.Criteria)
		for j := range r.Mirrors { // copies ask for what their requests do
			s.add(r.Mirrors[j].Cluster, c.Criteria)
		}
	}
}

// add notes what is asked of a cluster. Without a name a header holds that, and it may be any cluster's.
func (s criteriaByName) add(cluster string, criteria model.Metadata) {
	if criteria != "" && !slices.Contains(s[cluster], criteria) {
		s[cluster] = append(s[cluster], criteria)
	}
}

// criteriaSet are the criteria that the routes of all listeners have.
type criteriaSet struct {
	byCluster map[model.ClusterKey][]model.Metadata
	// byView are those for every cluster of a view, by its name.
	byView map[string][]model.Metadata
}

func newCriteriaSet() criteriaSet {
	return criteriaSet{byCluster: map[model.ClusterKey][]model.Metadata{}, byView: map[string][]model.Metadata{}}
}

// join adds those of a listener of a view.
func (s criteriaSet) join(scope model.Scope, of criteriaByName) {
	for name, list := range of {
		if name == "" {
			s.byView[scope.View().Name] = append(s.byView[scope.View().Name], list...)
			continue
		}
		key := scope.Key(name)
		s.byCluster[key] = append(s.byCluster[key], list...)
	}
}

func (s criteriaSet) of(c *model.Cluster) []model.Metadata {
	list := slices.Clone(s.byCluster[c.Key()])
	for _, view := range c.SeenIn() {
		list = append(list, s.byView[view]...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
