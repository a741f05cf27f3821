// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"
)

// The expectations in this file are what Envoy 1.40 does; the tests of
// internal/config compare both on the same requests.

func TestVirtualHostPrecedence(t *testing.T) {
	table := &RouteTable{}
	for _, d := range []string{
		"*", "foo.example", "foo.example:8080", "*.foo.example", "*-x.foo.example", "*.example", "foo.*", "foo.ex*",
	} {
		table.VirtualHosts = append(table.VirtualHosts, &VirtualHost{Name: d, Domains: []string{d}})
	}
	tests := []struct{ name, host, want string }{
		{"exact", "foo.example", "foo.example"},
		{"exact without case", "FOO.Example", "foo.example"},
		{"exact with port", "foo.example:8080", "foo.example:8080"},
		{"other port is another host", "foo.example:80", "foo.ex*"},
		{"suffix", "a.foo.example", "*.foo.example"},
		{"longest suffix", "a-x.foo.example", "*-x.foo.example"},
		{"wildcard stands for at least one character", ".foo.example", "*.example"},
		{"suffix before prefix", "foo.exa.example", "*.example"},
		{"longest prefix", "foo.exa", "foo.ex*"},
		{"prefix of a shorter host", "foo.ex", "foo.*"},
		{"prefix needs a character more", "foo.", "*"},
		{"no domain", "bar", "*"},
		{"empty host", "", "*"},
		{"Kelvin sign is not k", "foo.example\u212a", "foo.ex*"},
		{"bytes that are no text", "\xff.foo.example", "*.foo.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := table.VirtualHost(tt.host).Name; got != tt.want {
				t.Errorf("VirtualHost(%q) = %s, want %s", tt.host, got, tt.want)
			}
		})
	}
}

func TestHostIsLoweredInASCIIOnly(t *testing.T) {
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"k"}}, {Domains: []string{"\xff*"}}}}
	if vh := table.VirtualHost("\u212a"); vh != nil {
		t.Errorf("the Kelvin sign matches %q", vh.Domains)
	}
	if vh := table.VirtualHost("\xffA"); vh == nil {
		t.Error("a byte outside ASCII is not compared as it is")
	}
}

func TestNoVirtualHostMeansNoRoute(t *testing.T) {
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"foo"}, Routes: []*Route{{}}}}}
	if table.Match(request("bar", "/")) != nil {
		t.Error("a host without a virtual host has a route")
	}
	if table.Match(request("foo", "/")) == nil {
		t.Error("its own host has none")
	}
}

func TestFirstMatchingRouteWins(t *testing.T) {
	table := tableOf(
		&Route{Name: "exact", Path: PathMatch{Kind: PathExact, Value: "/a"}},
		&Route{Name: "header", Path: PathMatch{Value: "/a"}, Headers: []HeaderMatch{{Name: "x"}}},
		&Route{Name: "prefix", Path: PathMatch{Value: "/a"}},
		&Route{Name: "longer", Path: PathMatch{Value: "/ab"}},
		&Route{Name: "query", Path: PathMatch{Value: "/q?"}},
	)
	tests := []struct{ name, path, header, want string }{
		{"exact", "/a", "", "exact"},
		{"exact without its query", "/a?b=/ab", "", "exact"},
		{"exact is not a prefix", "/a/", "", "prefix"},
		{"prefix ends inside a segment", "/ab", "", "prefix"},
		{"header decides", "/ab", "x", "header"},
		{"path with case", "/A", "", ""},
		{"query is not path", "/q?", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request("host", tt.path)
			if tt.header != "" {
				r = request("host", tt.path, tt.header, "")
			}
			got := ""
			if route := table.Match(r); route != nil {
				got = route.Name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConnectMatchesItsOwnMatcherOnly(t *testing.T) {
	table := tableOf(
		&Route{Name: "prefix"},
		&Route{Name: "header", Path: PathMatch{Kind: PathConnect}, Headers: []HeaderMatch{{Name: "x"}}},
		&Route{Name: "connect", Path: PathMatch{Kind: PathConnect}},
	)
	connect := request("host:80", "")
	connect.Connect = true
	if got := table.Match(connect).Name; got != "connect" {
		t.Errorf("CONNECT: got %s", got)
	}
	connect.Values = func(string) []string { return []string{""} }
	if got := table.Match(connect).Name; got != "header" {
		t.Errorf("CONNECT with a header: got %s", got)
	}
	table.VirtualHosts[0].Routes = table.VirtualHosts[0].Routes[1:]
	if got := table.Match(request("host:80", "/")); got != nil {
		t.Errorf("GET: got %s", got.Name)
	}
}

func TestUpgradeIsComparedWholeAndWithoutCase(t *testing.T) {
	r := &Route{Upgrades: []string{"a", "websocket"}}
	for name, want := range map[string]bool{
		"websocket": true, "WebSocket": true, "A": true, "": false, "web": false, "a,websocket": false, "websocket, websocket": false,
	} {
		if got := r.Allows(name); got != want {
			t.Errorf("%q: got %t", name, got)
		}
	}
}

func TestHeaderMatch(t *testing.T) {
	present, exact, prefix := HeaderMatch{}, HeaderMatch{Kind: HeaderString, String: Exact("one")}, HeaderMatch{Kind: HeaderString, String: Prefix("on")}
	empty := HeaderMatch{Kind: HeaderString}
	joinedExact := HeaderMatch{Kind: HeaderString, String: Exact("one,two")}
	tests := []struct {
		name           string
		match          HeaderMatch
		header         string
		values         []string
		want, inverted bool
	}{
		{"present", present, "x", []string{""}, true, false},
		{"absent", present, "x", nil, false, true},
		{"exact", exact, "x", []string{"one"}, true, false},
		{"exact with case", exact, "x", []string{"One"}, false, true},
		{"exact of a missing header, inverted too", exact, "x", nil, false, false},
		{"prefix", prefix, "x", []string{"one"}, true, false},
		{"prefix of a missing header, inverted too", prefix, "x", nil, false, false},
		{"prefix of an empty value", prefix, "x", []string{""}, false, true},
		{"empty value", empty, "x", []string{""}, true, false},
		{"empty value is not a missing header", empty, "x", nil, false, false},
		{"any value of a repeated header", exact, "x", []string{"two", "one"}, true, false},
		{"no value of a repeated header", exact, "x", []string{"two", "three"}, false, true},
		{"repeated values are not joined", joinedExact, "x", []string{"one", "two"}, false, true},
		{"repeated cookies are not joined", joinedExact, "cookie", []string{"one", "two"}, false, true},
		{"accept is joined", joinedExact, "accept", []string{"one", "two"}, true, false},
		{"joined without empty values", joinedExact, "accept", []string{"", "one", "", "two"}, true, false},
		{"joined is compared as one", exact, "accept", []string{"one", "two"}, false, true},
		{"only empty values joined", empty, "accept", []string{"", ""}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			for _, v := range tt.values {
				headers = append(headers, tt.header, v)
			}
			h := tt.match
			h.Name = tt.header
			r := request("host", "/", headers...)
			if got := h.Matches(r); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
			h.Invert = true
			if got := h.Matches(r); got != tt.inverted {
				t.Errorf("inverted: got %t, want %t", got, tt.inverted)
			}
		})
	}
}

func tableOf(routes ...*Route) *RouteTable {
	return &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"*"}, Routes: routes}}}
}

// request makes a request with headers given as names and values in turn.
func request(host, path string, headers ...string) *Request {
	return &Request{Authority: host, Path: path, Values: func(name string) []string {
		var values []string
		for i := 0; i < len(headers); i += 2 {
			if strings.EqualFold(headers[i], name) {
				values = append(values, headers[i+1])
			}
		}
		return values
	}}
}
