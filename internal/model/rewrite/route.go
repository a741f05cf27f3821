// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/xlb-project/xlb/internal/model/matcher"

// PathRewrite replaces a part of a request's path. The zero value changes nothing.
type PathRewrite struct {
	// Prefix stands in place of what the route matched (prefix_rewrite); empty is none.
	Prefix string
	// Regex is applied to all of the path but the query (regex_rewrite); nil is none.
	Regex *matcher.Substitution
}

// HostRewrite replaces a request's host. At most one of Literal, Header and Path is
// set; the zero value changes nothing.
type HostRewrite struct {
	// Literal is the host (host_rewrite_literal).
	Literal string
	// Header names, in lower case, the header that holds it (host_rewrite_header).
	Header string
	// Path makes it of the path without query (host_rewrite_path_regex).
	Path *matcher.Substitution
	// AppendForwarded adds the replaced host to X-Forwarded-Host (append_x_forwarded_host).
	AppendForwarded bool
}
