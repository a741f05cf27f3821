// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
)

// Kinds of routes, by what tells their requests apart.
const (
	ByPath    = "path"
	ByPrefix  = "prefix"
	ByRegex   = "regex"
	ByHeader  = "header"
	OfAnyKind = "mixed"
)

// Kinds by an expression, with requests whose path has so many bytes. The kernel reads paths up to 250; the daemon serves longer ones.
const (
	ByRegex100   = "regex-100"
	ByRegex1000  = "regex-1000"
	ByRegex10000 = "regex-10000"
	ByRegex60000 = "regex-60000"
)

var (
	routeKinds = []string{ByPath, ByPrefix, ByRegex, ByHeader, OfAnyKind}
	// longKinds are measured only if they are asked for by name.
	longKinds = []string{ByRegex100, ByRegex1000, ByRegex10000, ByRegex60000}
)

// Route is an entry of a table, and a request that takes it.
type Route struct {
	// Match is the RouteMatch in YAML.
	Match string
	Path  string
	// Header is the value of x-route, if that decides.
	Header string
}

// RoutesOf makes a table of n routes of one kind. Their requests are told apart by a number of the same length, whatever n is.
func RoutesOf(kind string, n int) []Route {
	kinds := []string{kind}
	if kind == OfAnyKind {
		kinds = []string{ByPath, ByPrefix, ByRegex, ByHeader}
	}
	routes := make([]Route, n)
	for i := range routes {
		routes[i] = routeOf(kinds[i%len(kinds)], fmt.Sprintf("service-%05d", i))
	}
	return routes
}

func routeOf(kind, name string) Route {
	switch kind {
	case ByPath:
		return Route{Match: fmt.Sprintf(`{ path: "/%s/items" }`, name), Path: "/" + name + "/items"}
	case ByPrefix:
		return Route{Match: fmt.Sprintf(`{ prefix: "/%s/" }`, name), Path: "/" + name + "/items"}
	case ByRegex:
		return Route{Match: fmt.Sprintf(`{ safe_regex: { regex: "/%s/[a-z]+" } }`, name), Path: "/" + name + "/items"}
	case ByRegex100, ByRegex1000, ByRegex10000, ByRegex60000:
		var size int
		_, _ = fmt.Sscanf(kind, ByRegex+"-%d", &size) // of constants
		path := "/" + name + "/"
		return Route{Match: routeOf(ByRegex, name).Match, Path: path + strings.Repeat("a", size-len(path))}
	default:
		return Route{
			Match:  fmt.Sprintf(`{ prefix: "/", headers: [{ name: x-route, string_match: { exact: %s } }] }`, name),
			Path:   "/service-00000/items",
			Header: name,
		}
	}
}
