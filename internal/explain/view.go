// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
)

// viewFor is the view in which a request is looked at: that of the client, if the daemon knows it, else the one that the query names, else the shared one.
func (s *State) viewFor(q *Query, client *Workload) (model.View, error) {
	if client != nil && client.State != WorkloadUnknown {
		if q.View != "" && q.View != client.View {
			return model.View{}, queryError("view %q: the client has %s; leave out the view, or the client", q.View, viewText(client.View))
		}
		return model.View{Name: client.View}, nil
	}
	if q.View != "" && !slices.Contains(s.Views, q.View) {
		return model.View{}, UnknownView(q.View, s.Views)
	}
	return model.View{Name: q.View}, nil
}

// UnknownView is the error about a name that no view has. It names those that there are.
func UnknownView(name string, known []string) error {
	if len(known) == 0 {
		return queryError("view %q: unknown; all workloads have the shared one: leave the view out", name)
	}
	return queryError("view %q: unknown; there are %s; leave the view out for the shared one", name, strings.Join(known, ", "))
}

func viewText(name string) string {
	if name == "" {
		return "the shared view"
	}
	return "view " + name
}

// holderOf is what has the listeners of a view, as errors call it.
func holderOf(v model.View) string {
	if v.Name == "" {
		return "the configuration"
	}
	return viewText(v.Name)
}

func ofView(v model.View) string {
	if v.Name == "" {
		return ""
	}
	return " of " + viewText(v.Name)
}
