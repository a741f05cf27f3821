// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

func actionOf(cfg *model.Config, r *model.Route) *Action {
	switch {
	case r.Direct != nil:
		return &Action{Kind: DirectResponse, Status: r.Direct.Status}
	case r.Redirect != nil:
		return &Action{Kind: Redirect, Status: r.Redirect.Status, Changes: redirectChanges(r.Redirect)}
	}
	a := &Action{
		Kind: Forward, Timeout: r.Timeout.String(), Upgrades: slices.Clone(r.Upgrades),
		Changes: append(pathChanges(r.Rewrite), hostChanges(&r.Host)...),
	}
	for _, c := range sharesOf(r) {
		policy := ""
		if m := cfg.Cluster(c.Name); m != nil {
			policy = m.Policy.String()
		}
		a.Clusters = append(a.Clusters, Cluster{Name: c.Name, Weight: c.Weight, Policy: policy})
	}
	if r.TerminateConnect {
		a.Changes = append(a.Changes, "connect_config")
	}
	return a
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

func pathChanges(w model.PathRewrite) []string {
	switch {
	case w.Prefix != "":
		return []string{"prefix_rewrite " + w.Prefix}
	case w.Regex != nil:
		return []string{fmt.Sprintf("regex_rewrite %s to %s", w.Regex.Regex(), w.Regex.With())}
	}
	return nil
}

func hostChanges(h *model.HostRewrite) []string {
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
