// SPDX-License-Identifier: Apache-2.0

package source

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/xds/csds"
)

// WithClientStatus adds the client status discovery service to the admin API, for as long as there is a view with dynamic resources. Each such view is a
// client, whose scope is the name of the view; the shared one, without a scope, comes first.
func (s *Sources) WithClientStatus(handler http.Handler) http.Handler {
	status := csds.NewHandler(s.clients)
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("POST "+csds.Path, func(w http.ResponseWriter, r *http.Request) {
		if len(s.clients()) == 0 {
			handler.ServeHTTP(w, r)
			return
		}
		status.ServeHTTP(w, r)
	})
	return mux
}

func (s *Sources) clients() (list []csds.Client) {
	for _, one := range s.list() {
		if d := one.dynamic; d != nil {
			list = append(list, csds.Client{Node: d.bootstrap.Load().Dynamic.Node, Scope: one.view.Name, Resources: d.resources})
		}
	}
	return list
}
