// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
)

// PathKind says how PathMatch compares.
type PathKind uint8

const (
	// PathPrefix matches when the path begins with the value.
	PathPrefix PathKind = iota
	// PathExact matches when the path equals the value.
	PathExact
	// PathConnect matches CONNECT requests, which have no path, and nothing
	// else does (RouteMatch.connect_matcher).
	PathConnect
	// PathSeparatedPrefix matches the value itself and what follows it with a
	// "/" between (RouteMatch.path_separated_prefix).
	PathSeparatedPrefix
	// PathRegex matches when all of the path matches an expression.
	PathRegex
)

// PathMatch compares the request path without its query string.
type PathMatch struct {
	Kind PathKind
	// Value to compare with; for PathRegex the source of Regex.
	Value string
	// IgnoreCase compares ASCII letters without case (RouteMatch.case_sensitive:
	// false). As in Envoy a regular expression does not know it.
	IgnoreCase bool
	// Regex of PathRegex, nil otherwise.
	Regex *Regex
}

// Matches reports whether a path, without its query string, satisfies the match.
// No path does that of CONNECT.
func (m PathMatch) Matches(path string) bool {
	want := m.Value
	if m.IgnoreCase {
		path, want = ascii.Lower(path), ascii.Lower(want)
	}
	switch m.Kind {
	case PathPrefix:
		return strings.HasPrefix(path, want)
	case PathExact:
		return path == want
	case PathSeparatedPrefix:
		rest, begins := strings.CutPrefix(path, want)
		return begins && (rest == "" || rest[0] == '/')
	case PathRegex:
		return m.Regex.Matches(path)
	default:
		return false
	}
}
