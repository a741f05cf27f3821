// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func actionOf(scope model.Scope, r *model.Route, req *matcher.Request) *Action {
	a := &Action{Kind: Forward, Filters: filtersOf(r)}
	switch {
	case r.Direct != nil:
		a.Kind, a.Status = DirectResponse, r.Direct.Status
	case r.Redirect != nil:
		a.Kind, a.Status, a.Changes = Redirect, r.Redirect.Status, redirectChanges(r.Redirect)
	default:
		a.forward(scope, r, req)
	}
	for _, l := range r.Levels {
		a.Changes = append(a.Changes, headerChanges(l)...)
	}
	return a
}

// pathAction is the answer to a request whose path must not go on.
func pathAction(outcome rewrite.PathOutcome, path string) *Action {
	if outcome == rewrite.PathRedirected {
		return &Action{Kind: Redirect, Status: http.StatusTemporaryRedirect, Changes: []string{"path_with_escaped_slashes_action to " + path}}
	}
	return &Action{Kind: DirectResponse, Status: http.StatusBadRequest, Changes: []string{"the path is refused"}}
}

func (a *Action) forward(scope model.Scope, r *model.Route, req *matcher.Request) {
	a.Timeout, a.Upgrades = r.Timeout.String(), slices.Clone(r.Upgrades)
	a.Changes = append(pathChanges(r.Rewrite), hostChanges(&r.Host)...)
	if path, ok := r.Target(req.Path, r.Rewrite); ok && !req.Connect {
		a.Path = path
	}
	for _, c := range sharesOf(r) {
		share, found := clusterOf(scope, &c, req)
		if !found && (c.Missing || c.Header != "") {
			a.NotFound = cmp.Or(r.NotFound, http.StatusServiceUnavailable)
		}
		a.Clusters = append(a.Clusters, share)
		if c.Host != "" {
			a.Changes = append(a.Changes, "host_rewrite_literal "+c.Host)
		}
		a.Changes = append(a.Changes, headerChanges(&c.Changes)...)
	}
	if r.TerminateConnect {
		a.Changes = append(a.Changes, "connect_config")
	}
}

// clusterOf is the cluster that a share of a route means for a request, and whether there is one. It has no name where a header holds that of none.
func clusterOf(scope model.Scope, c *model.WeightedCluster, req *matcher.Request) (out Cluster, found bool) {
	out = Cluster{Name: c.Name, Header: c.Header, Weight: c.Weight}
	if c.Header != "" {
		out.Name = first(req.Header(c.Header))
	}
	m := scope.Cluster(out.Name)
	if m == nil {
		if c.Header != "" && !c.Missing {
			out.Name = ""
		}
		return out, false
	}
	out.Policy = m.Policy.String()
	out.Subset, _ = subsetOf(m, c.Criteria)
	return out, true
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// headerChanges name the headers that one level of the configuration changes.
func headerChanges(l *rewrite.HeaderLevel) []string {
	var list []string
	add := func(what string, c *rewrite.HeaderChanges) {
		if len(c.Remove) > 0 {
			list = append(list, what+"_headers_to_remove "+strings.Join(c.Remove, " "))
		}
		for _, s := range c.Set {
			list = append(list, fmt.Sprintf("%s_headers_to_add %s: %s", what, s.Name, s.Value.Source))
		}
	}
	add("request", &l.Request)
	add("response", &l.Response)
	return list
}

// sharesOf are the clusters that get requests. The weight of a single one is of no consequence.
func sharesOf(r *model.Route) []model.WeightedCluster {
	if len(r.Clusters) == 1 {
		return r.Clusters
	}
	hasNone := func(c model.WeightedCluster) bool { return c.Weight == 0 }
	return slices.DeleteFunc(slices.Clone(r.Clusters), hasNone)
}

func redirectChanges(r *model.Redirect) []string {
	var list []string
	add := func(set bool, field string, value any) {
		if set {
			list = append(list, fmt.Sprintf("%s %v", field, value))
		}
	}
	add(r.Scheme != "", "scheme_redirect", r.Scheme)
	add(r.Host != "", "host_redirect", r.Host)
	add(r.Port != 0, "port_redirect", r.Port)
	add(r.Path != "", "path_redirect", r.Path)
	add(r.StripQuery, "strip_query", true)
	return append(list, pathChanges(r.Rewrite)...)
}

func pathChanges(w rewrite.PathRewrite) []string {
	switch {
	case w.Prefix != "":
		return []string{"prefix_rewrite " + w.Prefix}
	case w.Regex != nil:
		return []string{fmt.Sprintf("regex_rewrite %s to %s", w.Regex.Regex(), w.Regex.With())}
	}
	return nil
}

func hostChanges(h *rewrite.HostRewrite) []string {
	var list []string
	switch {
	case h.Literal != "":
		list = append(list, "host_rewrite_literal "+h.Literal)
	case h.Header != "":
		list = append(list, "host_rewrite_header "+h.Header)
	case h.Path != nil:
		list = append(list, fmt.Sprintf("host_rewrite_path_regex %s to %s", h.Path.Regex(), h.Path.With()))
	}
	if h.AppendForwarded {
		list = append(list, "append_x_forwarded_host")
	}
	return list
}
