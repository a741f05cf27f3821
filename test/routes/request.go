// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Request is one request.
type Request struct {
	// Scheme of a target in absolute form; empty for one in origin form.
	Scheme string
	// Target in origin form.
	Method, Target, Host string
	Headers              [][2]string
	// Body, of which Headers tell the length.
	Body string
}

// Bytes is the request as it is sent.
func (r *Request) Bytes() []byte {
	var b bytes.Buffer
	target := r.Target
	if r.Scheme != "" {
		target = r.Scheme + "://" + r.Host + r.Target
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, target, r.Host)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n" + r.Body)
	return b.Bytes()
}

// Model is what routing with a table sees of it, if it is one that is routed (see Outcome).
func (r *Request) Model(table *model.RouteTable) *matcher.Request {
	authority := table.Host.Apply(r.Host)
	path, _ := table.Path.Apply(r.Target)
	return &matcher.Request{
		Authority: authority, Path: path, Method: r.Method,
		Scheme: matcher.SchemeOf(r.Scheme, r.values("x-forwarded-proto")),
		Values: func(name string) []string {
			if name == "host" {
				return []string{authority}
			}
			return r.values(name)
		},
	}
}

// Outcome says whether a table has it answered for its path in place of routing it.
func (r *Request) Outcome(table *model.RouteTable) rewrite.PathOutcome {
	_, outcome := table.Path.Apply(r.Target)
	return outcome
}

func (r *Request) values(name string) []string {
	var values []string
	for _, h := range r.Headers {
		if strings.EqualFold(h[0], name) {
			values = append(values, strings.Trim(h[1], " \t"))
		}
	}
	return values
}

// Request draws a request. Most are aimed at one of the table's routes; some
// then miss it.
func (w World) Request(t *Table) *Request {
	r := &Request{Method: pick(w, []string{"GET", "GET", "GET", "HEAD", "DELETE"}), Host: w.host(t)}
	path, query := w.path(), ""
	if len(t.matches) > 0 && !w.oneIn(5) {
		aim := pick(w, t.matches)
		path = w.pathFor(aim)
		query = w.queryFor(aim)
		w.headersFor(r, aim)
		w.cookiesFor(r, aim)
		if aim["grpc"] != nil && !w.oneIn(4) {
			w.grpc(r)
		}
	}
	if w.oneIn(6) {
		query = "?" + w.query()
	}
	if w.oneIn(8) {
		path += pick(w, []string{";x", "/", "//", "%2f", ".", "a", "A"})
	}
	if w.oneIn(12) {
		path = w.detour(path)
	}
	r.Target = path + query
	for range w.IntN(3) {
		w.header(r, pick(w, headerNames), pick(w, headerWords))
	}
	if w.oneIn(10) {
		w.grpc(r)
	}
	if w.oneIn(8) {
		w.header(r, "X-Forwarded-Proto", pick(w, schemes))
	}
	if w.oneIn(16) {
		r.Scheme = pick(w, schemes[:4])
	}
	return r
}

// detour writes a path differently, so that it means the same once it is normalised, or nearly.
func (w World) detour(path string) string {
	switch at := w.IntN(len(path)); w.IntN(4) {
	case 0:
		return path[:max(1, at)] + fmt.Sprintf("%%%02x", path[at]) + path[at:]
	case 1:
		return strings.ReplaceAll(path, "/", pick(w, []string{"/./", "/%2e/", "/b/../", "/..;x/", "//", `/\`, "/%5C", "/%2F"}))
	case 2:
		return "/" + w.PathOf() + "/.." + path
	default:
		return "/" + w.PathOf()
	}
}

// pathPieces are what paths are changed by, and what only looks like it.
var pathPieces = []string{
	"/", "/", "/", "a", "b", ".", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5c", "%5C", `\`, "%", "%%", "4", "1", "%41", "%61", "%34", ";", "%3b", "|", "{",
	"%7e", "%zz", "%c3", "//", "/./", "/../", "..;", "~", "[", "%2", "%25", "e", "f",
}

// PathOf draws a path without the slash at its beginning.
func (w World) PathOf() string {
	var path strings.Builder
	for range 1 + w.IntN(8) {
		path.WriteString(pick(w, pathPieces))
	}
	if w.oneIn(60) {
		path.WriteString("%00")
	}
	return path.String()
}

var schemes = []string{"http", "https", "HTTP", "Https", "ftp", "https,http"}

func (w World) grpc(r *Request) {
	w.header(r, "Content-Type", pick(w, []string{
		"application/grpc", "application/grpc+proto", "application/grpc+", "application/grpc;a=b", "application/grpc-web",
		"APPLICATION/GRPC", "application/grp", "application/grpc ", "",
	}))
}

// header adds a field, unless it cannot be one.
func (w World) header(r *Request, name, value string) {
	if strings.HasPrefix(name, ":") || strings.EqualFold(name, "host") {
		return
	}
	r.Headers = append(r.Headers, [2]string{name, value})
}

func (w World) host(t *Table) string {
	host := pick(w, domainWords)
	if len(t.domains) > 0 && !w.oneIn(4) {
		host = strings.ReplaceAll(pick(w, t.domains), "*", pick(w, []string{"", "a", "b.", "x"}))
	}
	if w.oneIn(4) {
		host += pick(w, []string{":80", ":8080", ":8080", ":1", ".", ".:8080", ":08080", ":"})
	}
	if w.oneIn(3) {
		host = w.otherCase(host)
	}
	if host == "" || strings.HasPrefix(host, ":") {
		host = "a"
	}
	return host
}

func (w World) pathFor(match Object) string {
	var path string
	switch {
	case match["safe_regex"] != nil:
		source := match["safe_regex"].(Object)["regex"]
		for _, e := range pathExpressions {
			if e.source == source {
				path = pick(w, e.values)
			}
		}
	case match["path"] != nil:
		path = match["path"].(string)
	case match["path_separated_prefix"] != nil:
		path = match["path_separated_prefix"].(string) + pick(w, []string{"", "/", "/a", "a", ";a"})
	default:
		path = match["prefix"].(string) + pick(w, []string{"", "", "a", "/", "b/A"})
	}
	if w.oneIn(4) {
		path = w.otherCase(path)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// valueFor is one that a StringMatcher accepts, or nearly.
func (w World) valueFor(m Object) string {
	if m["safe_regex"] != nil {
		source := m["safe_regex"].(Object)["regex"]
		for _, e := range expressions {
			if e.source == source {
				return pick(w, e.values)
			}
		}
	}
	var value string
	for _, kind := range []string{"exact", "prefix", "suffix", "contains"} {
		if m[kind] != nil {
			value = m[kind].(string)
		}
	}
	switch w.IntN(5) {
	case 0:
		value += "a"
	case 1:
		value = "b" + value
	case 2:
		value = w.otherCase(value)
	}
	return value
}

func (w World) headersFor(r *Request, match Object) {
	list, _ := match["headers"].([]any)
	for _, one := range list {
		h := one.(Object)
		name := h["name"].(string)
		for _, value := range w.valuesFor(h) {
			if name == ":method" && value != "" && strings.Trim(value, "abcABC") == "" {
				r.Method = value
			}
			w.header(r, name, value)
		}
	}
}

// valuesFor are none, one or two values for a HeaderMatcher.
func (w World) valuesFor(h Object) []string {
	var value string
	switch {
	case h["string_match"] != nil:
		value = w.valueFor(h["string_match"].(Object))
	case h["safe_regex_match"] != nil:
		value = w.valueFor(Object{"safe_regex": h["safe_regex_match"]})
	case h["range_match"] != nil:
		value = fmt.Sprint(h["range_match"].(Object)["start"].(int64) + pick(w, []int64{0, 1, -1, 4}))
		value = pick(w, []string{"", "", "+", "-", "0"}) + value
	default:
		value = pick(w, headerWords)
		for _, kind := range []string{"exact_match", "prefix_match", "suffix_match", "contains_match"} {
			if h[kind] != nil {
				value = w.valueFor(Object{"exact": h[kind]})
			}
		}
	}
	switch w.IntN(8) {
	case 0:
		return nil
	case 1:
		return []string{value, pick(w, headerWords)}
	case 2:
		return []string{pick(w, headerWords), value}
	}
	return []string{value}
}

func (w World) queryFor(match Object) string {
	list, _ := match["query_parameters"].([]any)
	var parts []string
	for _, one := range list {
		q := one.(Object)
		value := pick(w, queryWords)
		if m, ok := q["string_match"].(Object); ok {
			value = printable(w.valueFor(m))
		}
		parts = append(parts, q["name"].(string)+"="+value)
	}
	if len(parts) == 0 {
		return ""
	}
	switch w.IntN(6) {
	case 0:
		parts = append(parts, w.query())
	case 1:
		parts = append([]string{w.query()}, parts...)
	}
	return "?" + strings.Join(parts, "&")
}

// printable replaces what no request target may hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '#' {
			return 'x'
		}
		return r
	}, s)
}

func (w World) query() string {
	return pick(w, []string{
		"", "a", "a=", "a=b", "a=b&a=c", "&a", "a=b;b=c", "a%3Db", "a=b=c", "?a=b", "a=%62", "=b", "a&a=b", "A=a", "b&&a=a", "a%20=a",
		"a+b=a", "a;b=a", "a=b&", "&&", "a?=b", "/a=b",
	})
}

func (w World) cookiesFor(r *Request, match Object) {
	list, _ := match["cookies"].([]any)
	for _, one := range list {
		c := one.(Object)
		pair := c["name"].(string) + "=" + w.valueFor(c["string_match"].(Object))
		switch w.IntN(8) {
		case 0:
			pair += "; b=a"
		case 1:
			pair = "b=a;" + pair
		case 2:
			pair = pick(w, []string{"a", "a=", "; ", " ", ";;", "a =b;", `"a=b";`, "\ta=b;"}) + ";" + pair
		case 3:
			w.header(r, "Cookie", pick(w, []string{"a=b", "b=a", "x", ""}))
		case 4:
			pair += pick(w, []string{" ", ";", "\t", `"`, "=a"})
		case 5:
			name, value, _ := strings.Cut(pair, "=")
			pair = name + `="` + value + `"`
		}
		w.header(r, "Cookie", pair)
	}
}
