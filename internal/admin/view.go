// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

// viewParameter names the view that one of Envoy's pages shows; without it that is the shared one. An Envoy has one configuration, in which names are unique:
// of several views in one page, tools for Envoy would take the wrong cluster of a name.
const viewParameter = "view"

// ofView serves one of Envoy's pages for the view that a query names.
func (a *api) ofView(page func(w http.ResponseWriter, r *http.Request, c Config)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, c := r.URL.Query().Get(viewParameter), a.source.Config()
		if name != "" && !slices.Contains(c.Views, name) {
			writeText(w, http.StatusBadRequest, explain.UnknownView(name, c.Views).Error()+"\n")
			return
		}
		page(w, r, c.of(name))
	}
}

// clustersOf are those of the view that a page shows.
func (c *Config) clustersOf(s *metrics.Snapshot) []*metrics.ClusterSnapshot {
	var list []*metrics.ClusterSnapshot
	for i := range s.Clusters {
		if slices.Contains(s.Clusters[i].SeenIn(), c.view) {
			list = append(list, &s.Clusters[i])
		}
	}
	return list
}

// listeners are those of the view that a page shows.
func (c *Config) listeners() []*model.Listener { return c.Model.ListenersOf(model.View{Name: c.view}) }
