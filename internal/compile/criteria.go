// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// criteriaSet are the criteria that routes have, by cluster; those of the empty name are for every cluster of the view.
type criteriaSet map[model.ClusterKey][]model.Metadata

// criteriaOf looks through all routes of a listener.
func criteriaOf(l *model.Listener) criteriaSet {
	set := criteriaSet{}
	for _, vh := range l.Routes.VirtualHosts {
		for _, r := range vh.Routes {
			set.addRoute(l.View, r)
		}
	}
	return set
}

// join adds those of another set.
func (s criteriaSet) join(other criteriaSet) {
	for cluster, list := range other {
		for _, criteria := range list {
			s.add(cluster, criteria)
		}
	}
}

func (s criteriaSet) addRoute(v model.View, r *model.Route) {
	for i := range r.Clusters {
		c := &r.Clusters[i]
		s.add(v.Cluster(c.Name), c.Criteria)
		for j := range r.Mirrors { // copies ask for what their requests do
			s.add(v.Cluster(r.Mirrors[j].Cluster), c.Criteria)
		}
	}
}

// add notes what is asked of a cluster. Without a name a header holds that, and it may be any cluster's.
func (s criteriaSet) add(cluster model.ClusterKey, criteria model.Metadata) {
	if criteria != "" && !slices.Contains(s[cluster], criteria) {
		s[cluster] = append(s[cluster], criteria)
	}
}

func (s criteriaSet) of(cluster model.ClusterKey) []model.Metadata {
	list := slices.Concat(s[cluster], s[model.ClusterKey{View: cluster.View}])
	slices.Sort(list)
	return slices.Compact(list)
}
