// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/problem"
)

// FieldError is one problem of a configuration. Its path is as client.vips[0].vip.
type FieldError = problem.FieldError

// InterfaceError says that one of the interfaces cannot be used.
func InterfaceError(name string, err error) error {
	return &FieldError{Path: "interfaces", Reason: fmt.Sprintf("%s: %v; name one of this network namespace (ip link)", name, err)}
}

// reader takes a decoded file apart and collects what is wrong with it.
type reader struct {
	problems []*FieldError
}

func (r *reader) add(path, format string, args ...any) {
	r.problems = append(r.problems, &FieldError{Path: path, Reason: fmt.Sprintf(format, args...)})
}

func (r *reader) err(name string) error { return problem.Join(name, r.problems) }

// fields are those of one mapping.
type fields struct {
	r    *reader
	path string
	m    map[string]any
}

// mapping reads v, and reports the fields that are not known. A value that is no mapping has no fields.
func (r *reader) mapping(path string, v any, known ...string) fields {
	f := fields{r: r, path: path}
	m, ok := v.(map[string]any)
	if !ok {
		r.add(path, "want a mapping with %s", strings.Join(known, ", "))
		return f
	}
	f.m = m
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, name) {
			r.add(f.at(name), "unknown field; known are %s", strings.Join(known, ", "))
		}
	}
	return f
}

func (f fields) at(name string) string { return problem.Field(f.path, name) }

func (f fields) has(name string) bool { return f.m[name] != nil }

func (f fields) add(name, format string, args ...any) { f.r.add(f.at(name), format, args...) }

// require reports a field that is missing. It is silent where the mapping itself could not be read.
func (f fields) require(name, what string) bool {
	if f.m == nil {
		return false
	}
	if !f.has(name) {
		f.add(name, "required: %s", what)
	}
	return f.has(name)
}

func (f fields) text(name string) string {
	if !f.has(name) {
		return ""
	}
	s, ok := f.m[name].(string)
	if !ok || s == "" {
		f.add(name, "want a text that is not empty")
	}
	return s
}

func (f fields) flag(name string) bool {
	if !f.has(name) {
		return false
	}
	b, ok := f.m[name].(bool)
	if !ok {
		f.add(name, "want true or false")
	}
	return b
}

// number reads an integer between low and high.
func (f fields) number(name string, low, high, otherwise int64) int64 {
	if !f.has(name) {
		return otherwise
	}
	n, ok := f.m[name].(float64)
	if v := int64(n); ok && float64(v) == n && v >= low && v <= high {
		return v
	}
	f.add(name, "want a whole number from %d to %d", low, high)
	return otherwise
}

// list calls each with the path of every element.
func (f fields) list(name string, each func(path string, v any)) {
	if !f.has(name) {
		return
	}
	list, ok := f.m[name].([]any)
	if !ok {
		f.add(name, "want a list")
		return
	}
	for i, v := range list {
		each(fmt.Sprintf("%s[%d]", f.at(name), i), v)
	}
}

func (f fields) texts(name string) (found []string) {
	f.list(name, func(path string, v any) {
		s, ok := v.(string)
		switch {
		case !ok || s == "":
			f.r.add(path, "want a text that is not empty")
		case slices.Contains(found, s):
			f.r.add(path, "%s is named twice", s)
		default:
			found = append(found, s)
		}
	})
	return found
}

// unsupported says why an address cannot be used although it is one; "" when it can.
func unsupported(a netip.Addr) string {
	switch {
	case a.Is4In6():
		return "is IPv4 in a form of IPv6: write it as IPv4"
	case a.Zone() != "" || a.Is6() && a.IsLinkLocalUnicast():
		return "has a meaning on one link only: use one that other networks reach"
	}
	return ""
}

func (f fields) addrPort(name string) netip.AddrPort {
	if !f.has(name) {
		return netip.AddrPort{}
	}
	s, _ := f.m[name].(string)
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		f.add(name, "want an address with a port, as 10.0.0.100:80 or [fd00::100]:80")
		return a
	}
	if why := unsupported(a.Addr()); why != "" {
		f.add(name, "%s %s", a.Addr(), why)
		return netip.AddrPort{}
	}
	return a
}

// addrs reads an address, or a list of one of each family.
func (f fields) addrs(name string) (v4, v6 netip.Addr) {
	read := func(path string, v any) {
		s, _ := v.(string)
		a, err := netip.ParseAddr(s)
		into := &v6
		if a.Is4() {
			into = &v4
		}
		switch {
		case err != nil:
			f.r.add(path, "want an address, as 10.0.2.1")
		case unsupported(a) != "":
			f.r.add(path, "%s %s", a, unsupported(a))
		case into.IsValid():
			f.r.add(path, "%s and %s are of one family: name one", *into, a)
		default:
			*into = a
		}
	}
	if _, isOne := f.m[name].(string); isOne {
		read(f.at(name), f.m[name])
		return v4, v6
	}
	f.list(name, read)
	return v4, v6
}

// prefixes reads a list of them, of the family of an address if that is valid.
func (f fields) prefixes(name string, like netip.Addr) (found []netip.Prefix) {
	f.list(name, func(path string, v any) {
		s, _ := v.(string)
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			f.r.add(path, "want a prefix, as 10.0.2.0/24 or fd00:2::/64")
		case p.Addr().Is4In6():
			f.r.add(path, "%s %s", p, unsupported(p.Addr()))
		case like.IsValid() && p.Addr().Is4() != like.Is4():
			f.r.add(path, "%s is %s and the VIP %s: name prefixes of the VIP's family", p, Family(p.Addr()), Family(like))
		case p != p.Masked():
			f.r.add(path, "%s has bits behind its length: did you mean %s?", p, p.Masked())
		default:
			found = append(found, p)
		}
	})
	return found
}
