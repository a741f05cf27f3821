// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"maps"
)

// Object is a mapping of Envoy's configuration.
type Object = map[string]any

// Table is a route table without actions.
type Table struct {
	// Config is a RouteConfiguration whose routes have a match and nothing else.
	Config Object
	// Manager is what the table asks of the connection manager.
	Manager Object
	// matches are those of its routes, in order of all virtual hosts; domains likewise.
	matches []Object
	domains []string
}

// Routes is the number of routes, of all virtual hosts.
func (t *Table) Routes() int { return len(t.matches) }

// WithActions is the RouteConfiguration with what action adds to each route, by
// its number from 0 on.
func (t *Table) WithActions(action func(route int) Object) Object {
	n := 0
	out := Object{}
	for name, value := range t.Config {
		out[name] = value
	}
	var hosts []any
	for _, vh := range t.Config["virtual_hosts"].([]any) {
		host := vh.(Object)
		var routes []any
		for _, r := range host["routes"].([]any) {
			route := action(n)
			route["match"] = r.(Object)["match"]
			routes = append(routes, route)
			n++
		}
		hosts = append(hosts, Object{"name": host["name"], "domains": host["domains"], "routes": routes})
	}
	out["virtual_hosts"] = hosts
	return out
}

var domainWords = []string{
	"a", "b", "a.b", "b.a", "a.b:80", "a:8080", "[::1]", "[::1]:80", "a-b", "ab.a.b", "a.b.", "10.0.0.1",
}

func (w World) domain() string {
	word := pick(w, domainWords)
	switch w.IntN(7) {
	case 0, 1:
		return "*"
	case 2:
		return "*." + word
	case 3:
		return "*" + word
	case 4:
		return word + "*"
	case 5:
		return w.otherCase(word)
	default:
		return word
	}
}

// Table draws a table of a few virtual hosts.
func (w World) Table() *Table {
	t := &Table{}
	taken := map[string]bool{}
	var hosts []any
	for i := range 1 + w.IntN(4) {
		var domains []any
		for range 1 + w.IntN(3) {
			d := w.domain()
			if lower := lowered(d); !taken[lower] {
				taken[lower] = true
				domains = append(domains, d)
				t.domains = append(t.domains, d)
			}
		}
		if domains == nil {
			continue
		}
		routes := []any{}
		for range w.IntN(10) {
			match := w.match()
			t.matches = append(t.matches, match)
			routes = append(routes, Object{"match": match})
		}
		if w.oneIn(12) {
			for _, match := range w.crowd() {
				t.matches = append(t.matches, match)
				routes = append(routes, Object{"match": match})
			}
		}
		if w.oneIn(6) {
			for _, match := range w.ladder() {
				t.matches = append(t.matches, match)
				routes = append(routes, Object{"match": match})
			}
		}
		hosts = append(hosts, Object{"name": fmt.Sprintf("vh%d", i), "domains": domains, "routes": routes})
	}
	t.Config = Object{"name": "table", "virtual_hosts": hosts}
	if w.oneIn(8) {
		t.Manager = pick(w, []Object{
			{"strip_any_host_port": true}, {"strip_matching_host_port": true}, {"strip_trailing_host_dot": true},
			{"strip_any_host_port": true, "strip_trailing_host_dot": true},
			{"strip_matching_host_port": true, "strip_trailing_host_dot": true},
		})
	}
	if w.oneIn(3) {
		if t.Manager == nil {
			t.Manager = Object{}
		}
		maps.Copy(t.Manager, w.pathRule())
	}
	if w.oneIn(10) {
		t.Config["ignore_port_in_host_matching"] = true
	}
	if w.oneIn(16) {
		t.Config["ignore_path_parameters_in_path_matching"] = true
	}
	return t
}

// pathRule draws what changes paths. What istiod writes is drawn most.
func (w World) pathRule() Object {
	if w.oneIn(2) {
		return Object{"normalize_path": true}
	}
	return Object{
		"normalize_path": w.oneIn(2), "merge_slashes": w.oneIn(2),
		"path_with_escaped_slashes_action": pick(w, []string{
			"IMPLEMENTATION_SPECIFIC_DEFAULT", "KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD",
		}),
	}
}

func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isLetter(c) {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

func (w World) path() string {
	switch w.IntN(40) {
	case 0:
		return "/" + w.long(250)
	case 1:
		return "/" + w.long(87)
	case 2, 3, 4:
		return "/" + w.word("a", 4, 16)
	}
	return "/" + w.word("abA/;%.", 0, 4)
}

// match draws a RouteMatch. Half of the routes ask for a path only.
func (w World) match() Object {
	m := w.pathMatch()
	if w.oneIn(2) {
		return m
	}
	var headers []any
	for range w.IntN(3) {
		headers = append(headers, w.headerMatch())
	}
	if headers != nil {
		m["headers"] = headers
	}
	if w.oneIn(4) {
		m["query_parameters"] = []any{w.queryMatch()}
	}
	if w.oneIn(8) {
		m["cookies"] = []any{w.cookieMatch()}
	}
	if w.oneIn(8) {
		m["grpc"] = Object{}
	}
	if w.oneIn(10) {
		m["runtime_fraction"] = Object{"runtime_key": "unknown", "default_value": w.certainFraction()}
	}
	return m
}

// ladder draws prefixes, and paths, that begin each other: a few of many lengths, or many of few.
func (w World) ladder() []Object {
	var matches []Object
	n, letters, longest := 4+w.IntN(8), "a", 16
	if w.oneIn(4) {
		n, letters, longest = 110, "abA", 5
	}
	for range n {
		matches = append(matches, Object{pick(w, []string{"prefix", "prefix", "path"}): "/" + w.word(letters, 0, longest)})
	}
	return matches
}

// crowd draws so many routes for one path, told apart by headers, that they need an index.
func (w World) crowd() []Object {
	var matches []Object
	path := pick(w, []string{"/", "/", "/a"})
	for range 20 + w.IntN(30) {
		headers := []any{Object{"name": pick(w, headerNames[:2]), "string_match": Object{
			pick(w, []string{"exact", "exact", "prefix"}): w.word("abA", 1, 3),
		}}}
		for range w.IntN(3) {
			headers = append(headers, w.headerMatch())
		}
		matches = append(matches, Object{"prefix": path, "headers": headers})
	}
	return matches
}

// certainFraction is one that chance does not decide.
func (w World) certainFraction() Object {
	return pick(w, []Object{
		{"numerator": 0},
		{"numerator": 100},
		{"numerator": 101, "denominator": "HUNDRED"},
		{"numerator": 10000, "denominator": "TEN_THOUSAND"},
		{"numerator": 0, "denominator": "MILLION"},
		{"numerator": 1000000, "denominator": "MILLION"},
	})
}

func (w World) pathMatch() Object {
	var m Object
	switch w.IntN(6) {
	case 0, 1:
		m = Object{"prefix": w.path()}
		if w.oneIn(6) {
			m["prefix"] = ""
		}
	case 2:
		m = Object{"path": w.path()}
	case 3:
		m = Object{"path_separated_prefix": "/" + w.word("abA/;", 0, 3) + w.word("abA", 1, 1)}
	case 4:
		return Object{"safe_regex": Object{"regex": pick(w, pathExpressions).source}}
	case 5:
		m = Object{"prefix": "/"}
	}
	if w.oneIn(3) {
		m["case_sensitive"] = w.oneIn(4)
	}
	return m
}

var headerNames = []string{
	"x-a", "x-a", "X-B", "x-b", "accept", "user-agent", "cache-control", "cookie", "content-type", "host",
	":method", ":path", ":authority", ":scheme", ":scheme",
}

var headerWords = []string{
	"", "a", "b", "A", "ab", "Ab", "ba", "a,b", "b,a", "a, b", ",", "aa", "0", "5", "-5", "+5", "05", "5.0", "5a", "0x5", "7",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "é", "É", "\xff", "GET", "get", "http", "https",
	"/", "/a", "a.b", "a.b:80", "application/grpc", "application/grpc+proto",
}

func (w World) headerMatch() Object {
	if w.oneIn(12) {
		return Object{"name": ":scheme", "string_match": Object{"exact": pick(w, schemes[:4])}}
	}
	h := Object{"name": pick(w, headerNames)}
	switch w.IntN(14) {
	case 0:
		h["present_match"] = w.oneIn(2)
	case 1:
		// Nothing: Envoy takes it for present_match.
	case 2, 3:
		start := pick(w, []int64{-10, -5, 0, 5, 6})
		h["range_match"] = Object{"start": start, "end": start + pick(w, []int64{0, 1, 5, -1, 100})}
	case 4, 5, 6, 7:
		name := pick(w, []string{"exact_match", "prefix_match", "suffix_match", "contains_match"})
		h[name] = w.text()
	case 8:
		h["safe_regex_match"] = Object{"regex": pick(w, expressions).source}
	default:
		h["string_match"] = w.stringMatch(headerWords)
	}
	if w.oneIn(3) {
		h["invert_match"] = true
	}
	if w.oneIn(4) {
		h["treat_missing_header_as_empty"] = true
	}
	return h
}

// text is a word that a configuration can hold: not empty, and UTF-8.
func (w World) text() string {
	for {
		if s := pick(w, headerWords); s != "" && s != "\xff" {
			return s
		}
	}
}

// stringMatch draws a StringMatcher.
func (w World) stringMatch(words []string) Object {
	word := pick(w, words)
	if word == "\xff" {
		word = "a"
	}
	kind := pick(w, []string{"exact", "prefix", "suffix", "contains", "safe_regex"})
	m := Object{}
	switch {
	case kind == "safe_regex":
		m[kind] = Object{"regex": pick(w, expressions).source}
	case word == "":
		m["exact"] = word
	default:
		m[kind] = word
	}
	if kind != "safe_regex" && w.oneIn(3) {
		m["ignore_case"] = true
	}
	return m
}

var queryNames = []string{"a", "b", "A", "a%20", "a+b", "ab", "a;b"}

var queryWords = []string{"", "a", "b", "A", "ab", "b=c", "a;b", "%62", "+", "a?b", "/"}

func (w World) queryMatch() Object {
	q := Object{"name": pick(w, queryNames)}
	switch w.IntN(6) {
	case 0:
		q["present_match"] = w.oneIn(2)
	case 1:
		// Nothing: present.
	default:
		q["string_match"] = w.stringMatch(queryWords)
	}
	return q
}

var cookieWords = []string{"", "a", "b", "A", "ab", `"`, `"a"`, "a b", " a"}

func (w World) cookieMatch() Object {
	c := Object{"name": pick(w, []string{"a", "b", "A", "ab"}), "string_match": w.stringMatch(cookieWords)}
	if w.oneIn(3) {
		c["invert_match"] = true
	}
	return c
}
