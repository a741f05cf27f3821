// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"strconv"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// redirectCodes are Envoy's names (RedirectAction.RedirectResponseCode).
var redirectCodes = map[int]string{301: "MOVED_PERMANENTLY", 302: "FOUND", 303: "SEE_OTHER", 307: "TEMPORARY_REDIRECT", 308: "PERMANENT_REDIRECT"}

// redirectObject is envoy.config.route.v3.RedirectAction.
func redirectObject(r *model.Redirect) object {
	o := object{"response_code": redirectCodes[r.Status]}
	for name, value := range map[string]string{"scheme_redirect": r.Scheme, "host_redirect": r.Host, "path_redirect": r.Path} {
		if value != "" {
			o[name] = value
		}
	}
	if r.Port != 0 {
		o["port_redirect"] = r.Port
	}
	if r.StripQuery {
		o["strip_query"] = true
	}
	addRewrite(o, r.Rewrite)
	return o
}

// addRewrite adds the fields that rewrite a path.
func addRewrite(o object, w rewrite.PathRewrite) {
	if w.Prefix != "" {
		o["prefix_rewrite"] = w.Prefix
	}
	if w.Regex != nil {
		o["regex_rewrite"] = substitutionObject(w.Regex)
	}
}

// addHostRewrite adds the fields of envoy.config.route.v3.RouteAction that rewrite a host.
func addHostRewrite(o object, h *rewrite.HostRewrite) {
	switch {
	case h.Literal != "":
		o["host_rewrite_literal"] = h.Literal
	case h.Header != "":
		o["host_rewrite_header"] = h.Header
	case h.Path != nil:
		o["host_rewrite_path_regex"] = substitutionObject(h.Path)
	}
	if h.AppendForwarded {
		o["append_x_forwarded_host"] = true
	}
}

// substitutionObject is envoy.type.matcher.v3.RegexMatchAndSubstitute.
func substitutionObject(s *matcher.Substitution) object {
	return object{"pattern": object{"regex": s.Regex()}, "substitution": s.With()}
}

// actionTexts say what a route does: the clusters that it sends to, or its own answer.
func actionTexts(r *model.Route) []string {
	switch {
	case r.Direct != nil:
		return []string{"direct_response " + strconv.Itoa(r.Direct.Status)}
	case r.Redirect != nil:
		return []string{"redirect " + strconv.Itoa(r.Redirect.Status)}
	}
	return clusterTexts(r)
}
