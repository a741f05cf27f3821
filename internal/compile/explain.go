// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Route evaluates the table as bpf/lib/router.h does. The verdict is VerdictOk with
// a route, and otherwise the reason why the kernel hands the request over.
func (t *Table) Route(r *model.Request) (*Route, maps.Verdict) {
	if t.Flags&maps.TableSlow != 0 {
		return nil, maps.HandoverTableSlow
	}
	if !isHost(r.Authority) {
		return nil, maps.HandoverHost
	}
	if failure := t.scanFields(r); failure != maps.VerdictOk {
		return nil, failure
	}
	vhost := t.vhost(strings.ToLower(r.Authority))
	if vhost == 0 {
		return nil, maps.HandoverNoVHost
	}
	candidates := t.candidates(vhost, r.Path)
	if candidates == nil {
		return nil, maps.HandoverNoRoute
	}
	bits, failure := t.conditions(r)
	if failure != maps.VerdictOk {
		return nil, failure
	}
	for i := range candidates {
		c := &candidates[i]
		if bits&c.Need != c.Need || bits&c.Forbid != 0 {
			continue
		}
		if c.Flags&maps.RouteSlow != 0 {
			return nil, maps.HandoverRouteSlow
		}
		return c, maps.VerdictOk
	}
	return nil, maps.HandoverNoRoute
}

// ClusterOf returns the cluster that a route's draw, any number, falls on.
func (t *Table) ClusterOf(r *Route, draw uint32) string {
	if r.Count == 0 {
		return r.Cluster
	}
	draw %= r.Total
	for _, s := range t.Splits[r.First : r.First+r.Count] {
		if draw < s.Below {
			return s.Cluster
		}
	}
	return ""
}

// isHost reports whether the kernel looks a host up at all: is_host() in bpf/lib/ctype.h.
func isHost(host string) bool {
	foreign := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-.:[]_~", c)
	}
	return host != "" && len(host) <= int(maps.MaxHost) && !strings.ContainsFunc(host, foreign)
}

func (t *Table) vhost(host string) uint32 {
	if t.Flags&maps.TableHosts != 0 {
		if vhost := t.longestHost(maps.HostBackward, reversed(host)+terminator); vhost != 0 {
			return vhost
		}
	}
	if t.Flags&maps.TableHostPrefixes != 0 {
		if vhost := t.longestHost(maps.HostForward, host); vhost != 0 {
			return vhost
		}
	}
	return t.Default
}

func (t *Table) longestHost(d maps.HostDirection, host string) uint32 {
	best := -1
	for i, h := range t.Hosts {
		if h.Direction == d && strings.HasPrefix(host, h.Key) && (best < 0 || len(h.Key) > len(t.Hosts[best].Key)) {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return t.Hosts[best].VHost
}

// candidates looks up the path without its query, cut to what the kernel compares.
func (t *Table) candidates(vhost uint32, path string) []Route {
	path, _, _ = strings.Cut(path, "?")
	if len(path) > int(maps.MaxPath) {
		path = path[:maps.MaxPath]
	}
	path += terminator
	best := -1
	for i, p := range t.Paths {
		if p.VHost == vhost && strings.HasPrefix(path, p.Key) && (best < 0 || len(p.Key) > len(t.Paths[best].Key)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	p := t.Paths[best]
	return t.Routes[p.First : p.First+p.Count]
}

// scanFields hands over a header that occurs twice, and more of the asked headers than MaxFields.
func (t *Table) scanFields(r *model.Request) maps.Verdict {
	var seen int
	for _, f := range t.Fields {
		switch n := len(r.Values(f.Name)); {
		case n > 1:
			return maps.HandoverRepeatedField
		case n == 1:
			seen++
		}
	}
	if seen > int(maps.MaxFields) {
		return maps.HandoverTooManyFields
	}
	return maps.VerdictOk
}

// conditions returns the conditions that hold. A value with whitespace behind it is handed over.
func (t *Table) conditions(r *model.Request) (bits uint64, failure maps.Verdict) {
	bits = t.Missing
	for i, f := range t.Fields {
		values := r.Values(f.Name)
		if len(values) == 0 {
			continue
		}
		value := values[0]
		if strings.TrimRight(value, " \t") != value {
			return 0, maps.HandoverMalformed
		}
		bits = bits&^f.Missing | t.valueOf(i, value)
	}
	return bits, maps.VerdictOk
}
