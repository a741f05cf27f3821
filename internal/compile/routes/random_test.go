// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// world makes route tables and requests that overlap on purpose: few letters, short
// strings, and lengths around the kernel's limits.
type world struct{ *rand.Rand }

func newWorld(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 0))} }

func (w world) oneIn(n int) bool { return w.IntN(n) == 0 }

func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

func (w world) word(letters string, shortest, longest int) string {
	b := make([]byte, shortest+w.IntN(longest-shortest+1))
	for i := range b {
		b[i] = letters[w.IntN(len(letters))]
	}
	return string(b)
}

// long returns a string of one letter, mostly, as long as the kernel's limits or nearly.
func (w world) long(limit int) string {
	return strings.Repeat("a", limit-3+w.IntN(6)) + w.word("ab", 0, 2)
}

func (w world) path() string {
	switch w.IntN(60) {
	case 0:
		return "/" + w.long(248)
	case 1, 2:
		return "/" + w.long(int(maps.MaxPathText)-2)
	case 3, 4, 5, 6, 7:
		return "/" + w.word("a", 4, 16)
	}
	return "/" + w.word("ab/", 0, 4)
}

func (w world) host() string {
	if w.oneIn(12) {
		return w.long(248)
	}
	if w.oneIn(8) {
		return w.word("ab.[]", 0, 3) + ":" + w.word("1a.]", 0, 2)
	}
	return w.word("ab.", 1, 4)
}

func (w world) domain() string {
	switch host := w.host(); w.IntN(6) {
	case 0:
		return "*"
	case 1, 2:
		return "*" + host
	case 3, 4:
		return host + "*"
	default:
		return host
	}
}

func (w world) headerName() string {
	return pick(w, "x", "x", "y", "y", "z", "v", "host", "content-length")
}

func (w world) headerValue() string {
	if w.oneIn(60) {
		return w.long(119)
	}
	if w.oneIn(12) {
		return pick(w, "", "", "+", "-") + w.word("0012345", 0, 3)
	}
	return w.word("ab", 0, 3)
}

func (w world) header() matcher.HeaderMatch {
	h := matcher.HeaderMatch{
		Name:           w.headerName(),
		Kind:           pick(w, matcher.HeaderPresent, matcher.HeaderString, matcher.HeaderString),
		String:         matcher.StringMatch{Kind: pick(w, matcher.StringExact, matcher.StringPrefix), Value: w.headerValue()},
		Invert:         w.oneIn(3),
		MissingAsEmpty: w.oneIn(8),
	}
	switch w.IntN(12) {
	case 0:
		h.Kind, h.Range = matcher.HeaderRange, pick(w, matcher.Range{Start: 0, End: 5}, matcher.Range{Start: -20, End: 7}, matcher.Range{Start: 3, End: 120})
	case 1:
		h.String = w.text()
	case 2, 3:
		w.pseudo(&h)
	}
	return h
}

// pseudo asks the same of what is not a header, with values that requests have.
func (w world) pseudo(h *matcher.HeaderMatch) {
	switch w.IntN(3) {
	case 0:
		h.Name, h.String.Value = ":path", w.path()+pick(w, "", "", "?a")
	case 1:
		h.Name, h.String.Value = ":method", pick(w, "GET", "POST", "POS", "get")
	default:
		h.Name, h.String.Value = ":scheme", pick(w, "http", "https", "HTTP")
	}
	h.String.IgnoreCase = w.oneIn(4)
	if w.oneIn(4) {
		h.String = w.text()
	}
}

// text is a comparison of any kind.
func (w world) text() matcher.StringMatch {
	m := matcher.StringMatch{
		Kind:       pick(w, matcher.StringExact, matcher.StringPrefix, matcher.StringSuffix, matcher.StringContains, matcher.StringRegex),
		Value:      w.headerValue(),
		IgnoreCase: w.oneIn(2),
	}
	if m.Kind == matcher.StringRegex {
		m.Value, m.IgnoreCase = pick(w, "a*", "a|b", ".+b"), false
		m.Regex = regex(m.Value)
	}
	return m
}

func regex(source string) *matcher.Regex {
	re, err := matcher.NewRegex(source)
	if err != nil {
		panic(err)
	}
	return re
}

func (w world) pathMatch() matcher.PathMatch {
	m := matcher.PathMatch{Kind: pick(w, matcher.PathPrefix, matcher.PathPrefix, matcher.PathExact, matcher.PathSeparatedPrefix), Value: w.path()}
	switch w.IntN(20) {
	case 0:
		return matcher.PathMatch{}
	case 1:
		return matcher.PathMatch{Kind: matcher.PathConnect}
	case 2, 3, 4:
		m.IgnoreCase = true
	case 5, 6, 7, 8:
		m.Kind, m.Value = matcher.PathRegex, w.expression()
		m.Regex = regex(m.Value)
	}
	return m
}

func (w world) expression() string {
	if w.oneIn(16) {
		return tooLong
	}
	return pick(w, "/a.*", "/[ab]", "/ab?/.*", "/b", ".*b", ".*a/", "(?i)/a", "/"+w.long(248)+".*", "/"+w.long(248), "/a\x00?", "/b+/a*", "/(a|b)*a(a|b)",
		"/.", "/a|/bb", "[^b]*", "/ab.+|/b", "/(?i:ab)/?")
}

// tooLong is an expression that no automaton takes: it is too long.
var tooLong = "/a" + strings.Repeat("(?:)", 1100)

// more gives a route conditions that are no headers.
func (w world) more(r *model.Route) {
	switch w.IntN(5) {
	case 0, 1, 2:
		r.Cookies = []matcher.CookieMatch{{Name: "a", String: w.text(), Invert: w.oneIn(3)}}
	case 3:
		r.GRPC = true
	case 4:
		r.Fraction = matcher.Fraction{Numerator: pick(w, uint32(0), 50, 100), Denominator: 100}
	}
}

func (w world) parameter() string {
	if w.oneIn(30) {
		return w.long(54)
	}
	return pick(w, "a", "a", "b", "ab", "A", "a%20")
}

func (w world) parameterMatch() matcher.QueryMatch {
	value := w.text()
	if w.oneIn(2) {
		value = matcher.StringMatch{Kind: pick(w, matcher.StringExact, matcher.StringPrefix), Value: w.headerValue()}
	}
	return matcher.QueryMatch{Name: w.parameter(), String: pick(w, &value, &value, &value, nil), Absent: w.oneIn(2)}
}

// query is what follows a path.
func (w world) query() string {
	if w.oneIn(6) {
		return "?" + strings.Repeat("c&", int(maps.MaxParameters)-3+w.IntN(4)) + "a=a"
	}
	parts := make([]string, 1+w.IntN(4))
	for i := range parts {
		switch parts[i] = w.parameter(); w.IntN(8) {
		case 0:
		case 1:
			parts[i] = w.word("ab/?=", 0, 3)
		default:
			parts[i] += "=" + w.headerValue()
		}
	}
	return "?" + strings.Join(parts, "&")
}

func (w world) route() *model.Route {
	r := &model.Route{Path: w.pathMatch(), Timeout: time.Duration(w.IntN(50)) * time.Second}
	if w.oneIn(4) {
		w.more(r)
	}
	if w.oneIn(8) {
		r.Fraction = pick(w, matcher.Fraction{Numerator: 30, Denominator: 100}, matcher.Fraction{Numerator: 5000, Denominator: 10000},
			matcher.Fraction{Numerator: 700000, Denominator: 1000000})
	}
	if w.oneIn(8) {
		r.Filters.CORS = &model.CORS{}
	}
	if w.oneIn(3) {
		r.Rewrite.Prefix = pick(w, "/", "/new", "/a/b?c", "/"+w.long(int(maps.MaxRewrite)-1))
	}
	if w.oneIn(3) {
		r.Upgrades = []string{pick(w, "other", model.UpgradeWebSocket)}
	}
	if w.oneIn(2) {
		for range w.IntN(4) {
			r.Headers = append(r.Headers, w.header())
		}
	}
	if w.oneIn(4) {
		for range 1 + w.IntN(2) {
			r.Query = append(r.Query, w.parameterMatch())
		}
	}
	for range 1 + w.IntN(3) {
		r.Clusters = append(r.Clusters, model.WeightedCluster{Name: fmt.Sprintf("c%d", w.IntN(4)), Weight: uint32(w.IntN(3))})
	}
	r.Clusters[0].Weight++
	return r
}

// ladder draws a few prefixes of more lengths than the kernel tries by hash, or nearly; or many of few lengths.
func (w world) ladder() []*model.Route {
	n, letters, longest := 4+w.IntN(8), "a", 16
	if w.oneIn(12) {
		n, letters, longest = 110, "ab/", 5
	}
	routes := make([]*model.Route, n)
	for i := range routes {
		routes[i] = w.route()
		routes[i].Path = matcher.PathMatch{Kind: pick(w, matcher.PathPrefix, matcher.PathPrefix, matcher.PathExact), Value: "/" + w.word(letters, 0, longest)}
	}
	return routes
}

// crowd draws so many routes for a few paths that they need an index.
func (w world) crowd() []*model.Route {
	routes := make([]*model.Route, 17+w.IntN(60))
	for i := range routes {
		r := &model.Route{Path: matcher.PathMatch{Value: pick(w, "/", "/", "/a", "/ab")}, Timeout: time.Duration(i) * time.Second}
		r.Clusters = []model.WeightedCluster{{Name: fmt.Sprintf("c%d", w.IntN(4)), Weight: 1}}
		for range 1 + w.IntN(3) {
			h := matcher.HeaderMatch{
				Name: pick(w, "x", "y", "z", "v"), Kind: matcher.HeaderString, String: matcher.Exact(w.headerValue()), MissingAsEmpty: w.oneIn(20),
			}
			if w.oneIn(8) {
				h.String.Kind = matcher.StringPrefix
			}
			if w.oneIn(10) {
				h = w.header()
			}
			r.Headers = append(r.Headers, h)
		}
		if w.oneIn(4) {
			value := matcher.Exact(w.headerValue())
			r.Query = []matcher.QueryMatch{{Name: pick(w, "a", "b"), String: &value}}
		}
		routes[i] = r
	}
	if w.oneIn(3) {
		routes[w.IntN(len(routes))] = w.route()
	}
	return routes
}

func (w world) table() *model.RouteTable {
	t := &model.RouteTable{IgnorePort: w.oneIn(8), IgnorePathParameters: w.oneIn(12)}
	if w.oneIn(60) {
		t.EnvoyHeaders = &rewrite.EnvoyHeaders{}
	}
	if w.oneIn(12) {
		t.Host = pick(w, rewrite.HostRule{AnyPort: true}, rewrite.HostRule{Port: 1}, rewrite.HostRule{TrailingDot: true})
	}
	if w.oneIn(6) {
		t.Path = pick(w, rewrite.PathRule{Normalize: true}, rewrite.PathRule{MergeSlashes: true}, rewrite.PathRule{EscapedSlashes: rewrite.ForwardSlashes},
			rewrite.PathRule{Normalize: true, MergeSlashes: true, EscapedSlashes: rewrite.RejectSlashes})
	}
	taken := map[string]bool{}
	for i := range 1 + w.IntN(5) {
		vh := &model.VirtualHost{Name: fmt.Sprintf("vh%d", i)}
		for range 1 + w.IntN(3) {
			if d := w.domain(); !taken[d] {
				taken[d] = true
				vh.Domains = append(vh.Domains, d)
			}
		}
		for range w.IntN(9) {
			vh.Routes = append(vh.Routes, w.route())
		}
		if w.oneIn(12) {
			vh.Routes = append(vh.Routes, w.crowd()...)
		}
		if w.oneIn(6) {
			vh.Routes = append(vh.Routes, w.ladder()...)
		}
		t.VirtualHosts = append(t.VirtualHosts, vh)
	}
	return t
}

func (w world) request() *matcher.Request {
	headers := map[string][]string{}
	for range w.IntN(4) {
		name := w.headerName()
		if w.oneIn(4) {
			headers[name] = append(headers[name], w.headerValue())
		} else {
			headers[name] = []string{w.headerValue()}
		}
	}
	if w.oneIn(12) {
		headers["content-type"] = []string{pick(w, "application/grpc", "application/grpc+proto", "application/grpc-web", "text/html")}
	}
	if w.oneIn(4) {
		headers["origin"] = []string{pick(w, "http://a", "")}
	}
	if w.oneIn(6) {
		headers["x-forwarded-proto"] = []string{pick(w, "https", "http", "HttpS", "https ", "ftp")}
	}
	if w.oneIn(6) {
		headers["cookie"] = []string{"a=" + w.headerValue()}
	}
	path := w.path()
	if w.oneIn(8) {
		path = strings.ToUpper(path)
	}
	if w.oneIn(8) {
		path += w.word("a/", 0, 9) + pick(w, "/..", "/.a", "//", "%61", "%2f", "/a.")
	}
	if w.oneIn(2) {
		path += w.query()
	}
	host := w.host()
	if w.oneIn(5) {
		host = strings.ToUpper(host)
	}
	return &matcher.Request{
		Authority: host,
		Path:      path,
		Method:    pick(w, "GET", "POST"),
		Scheme:    matcher.SchemeOf("", headers["x-forwarded-proto"]),
		Draw:      w.Uint64(),
		Values:    func(name string) []string { return headers[name] },
	}
}
