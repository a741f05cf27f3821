// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Kinds of routes, by what tells their requests apart.
const (
	routesByPath    = "path"
	routesByPrefix  = "prefix"
	routesByRegex   = "regex"
	routesByHeader  = "header"
	routesOfAnyKind = "mixed"
)

var routeKinds = []string{routesByPath, routesByPrefix, routesByRegex, routesByHeader, routesOfAnyKind}

// routesScript is appended to wrk's script where requests ask for routes.
const routesScript = "routes.lua"

// askedRoutes is the file in which the script finds what to ask for: lines of a path, and a header's value where one decides.
const askedRoutes = "routes.txt"

// maxAsked bounds the requests that a client takes turns with. They are spread over the whole table.
const maxAsked = 1000

// route is an entry of a table, and a request that takes it.
type route struct {
	// Match is the RouteMatch in YAML.
	Match string
	path  string
	// header is the value of x-route, if that decides.
	header string
}

// routesOf makes a table of n routes of one kind. Their requests are told apart by a number of the same length, whatever n is.
func routesOf(kind string, n int) []route {
	kinds := []string{kind}
	if kind == routesOfAnyKind {
		kinds = []string{routesByPath, routesByPrefix, routesByRegex, routesByHeader}
	}
	routes := make([]route, n)
	for i := range routes {
		routes[i] = routeOf(kinds[i%len(kinds)], fmt.Sprintf("service-%05d", i))
	}
	return routes
}

func routeOf(kind, name string) route {
	switch kind {
	case routesByPath:
		return route{Match: fmt.Sprintf(`{ path: "/%s/items" }`, name), path: "/" + name + "/items"}
	case routesByPrefix:
		return route{Match: fmt.Sprintf(`{ prefix: "/%s/" }`, name), path: "/" + name + "/items"}
	case routesByRegex:
		return route{Match: fmt.Sprintf(`{ safe_regex: { regex: "/%s/[a-z]+" } }`, name), path: "/" + name + "/items"}
	default:
		return route{
			Match:  fmt.Sprintf(`{ prefix: "/", headers: [{ name: x-route, string_match: { exact: %s } }] }`, name),
			path:   "/service-00000/items",
			header: name,
		}
	}
}

// knowsRoutes reports whether the benchmark can give the peer a table of routes, or the peer needs none.
func (p peer) knowsRoutes() bool {
	return p.name == peerXLB || p.name == peerEnvoy || p.name == peerDirect
}

// lay gives the service the routes of a load, and the clients their requests.
func (b *bed) lay(l load) error {
	b.site.scan = l.Choice == choiceOfAll
	if l.Case != caseRoutes {
		b.site.routes = nil
		if l.isScaled() {
			return b.layScaled(l)
		}
		return nil
	}
	b.site.routes = routesOf(l.RouteKind, l.Routes)
	var asked strings.Builder
	n := min(l.Routes, maxAsked)
	for i := range n {
		r := b.site.routes[i*l.Routes/n]
		fmt.Fprintln(&asked, strings.TrimSpace(r.path+" "+r.header))
	}
	return os.WriteFile(filepath.Join(b.site.dir, askedRoutes), []byte(asked.String()), 0o644)
}
