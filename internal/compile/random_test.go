// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/model"
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
	if w.oneIn(60) {
		return "/" + w.long(248)
	}
	return "/" + w.word("ab/", 0, 4)
}

func (w world) host() string {
	if w.oneIn(12) {
		return w.long(248)
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

func (w world) headerName() string { return pick(w, "x", "y", "host", "content-length") }

func (w world) headerValue() string {
	if w.oneIn(60) {
		return w.long(119)
	}
	return w.word("ab", 0, 3)
}

func (w world) header() model.HeaderMatch {
	return model.HeaderMatch{
		Name:   w.headerName(),
		Kind:   pick(w, model.HeaderPresent, model.HeaderExact, model.HeaderPrefix),
		Value:  w.headerValue(),
		Invert: w.oneIn(3),
	}
}

func (w world) route() *model.Route {
	r := &model.Route{
		Path:    model.PathMatch{Kind: pick(w, model.PathPrefix, model.PathExact), Value: w.path()},
		Timeout: time.Duration(w.IntN(50)) * time.Second,
	}
	if w.oneIn(15) {
		r.Path.Value = ""
	}
	if w.oneIn(10) {
		r.Path = model.PathMatch{Kind: model.PathConnect}
	}
	if w.oneIn(3) {
		r.Upgrades = []string{pick(w, "other", model.UpgradeWebSocket)}
	}
	if w.oneIn(2) {
		for range w.IntN(4) {
			r.Headers = append(r.Headers, w.header())
		}
	}
	for range 1 + w.IntN(3) {
		r.Clusters = append(r.Clusters, model.WeightedCluster{Name: fmt.Sprintf("c%d", w.IntN(4)), Weight: uint32(w.IntN(3))})
	}
	r.Clusters[0].Weight++
	return r
}

func (w world) table() *model.RouteTable {
	t := &model.RouteTable{}
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
		t.VirtualHosts = append(t.VirtualHosts, vh)
	}
	return t
}

func (w world) request() *model.Request {
	headers := map[string][]string{}
	for range w.IntN(4) {
		name := w.headerName()
		if w.oneIn(4) {
			headers[name] = append(headers[name], w.headerValue())
		} else {
			headers[name] = []string{w.headerValue()}
		}
	}
	path := w.path()
	if w.oneIn(4) {
		path += "?" + w.word("ab/?", 0, 3)
	}
	host := w.host()
	if w.oneIn(5) {
		host = strings.ToUpper(host)
	}
	return &model.Request{
		Authority: host,
		Path:      path,
		Values:    func(name string) []string { return headers[name] },
	}
}
