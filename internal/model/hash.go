// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// HashKind says what of a request a HashPolicy hashes.
type HashKind uint8

const (
	// HashHeader hashes the values of a header.
	HashHeader HashKind = iota
	// HashCookie hashes a cookie.
	HashCookie
	// HashSourceIP hashes the client's address.
	HashSourceIP
	// HashQuery hashes a parameter of the query.
	HashQuery
)

// HashPolicy is envoy.config.route.v3.RouteAction.HashPolicy.
type HashPolicy struct {
	Kind HashKind
	// Name of the header, in lower case, of the cookie, or of the parameter.
	Name string
	// Rewrite changes each value of the header first; nil leaves it.
	Rewrite *matcher.Substitution
	// New is what a client without the cookie gets; nil: nothing.
	New *NewCookie
	// Terminal ends the list once there is a hash, this policy's or an earlier one's.
	Terminal bool
}

// NewCookie is a cookie that keeps a client at its endpoint.
type NewCookie struct {
	// TTL in whole seconds; 0 makes it a session's.
	TTL time.Duration
	// Path of the cookie; empty sets none.
	Path       string
	Attributes []CookieAttribute
}

// CookieAttribute is written behind a cookie; without a value its name alone.
type CookieAttribute struct{ Name, Value string }

// HashPolicies are asked in their order (RouteAction.hash_policy).
type HashPolicies []HashPolicy

// HashSource is what policies hash beside the request itself.
type HashSource struct {
	// IP is the text of the client's address; empty has no hash.
	IP string
	// NewCookie makes the value of a cookie that the client does not have, for a policy with New; nil leaves it without a hash.
	NewCookie func(*HashPolicy) string
	// Pace is that at which values are rewritten; it says to go on. nil: nobody waits.
	Pace matcher.Pace
}

// Hash joins the hashes of all policies that find something to hash, as Envoy does; ok is false where none does.
func (l HashPolicies) Hash(r *matcher.Request, from HashSource) (hash uint64, ok bool) {
	for i := range l {
		p := &l[i]
		if next, found := p.hash(r, from); found {
			hash, ok = hashing.Combine(hash, next), true
		}
		if ok && p.Terminal {
			break
		}
	}
	return hash, ok
}

func (p *HashPolicy) hash(r *matcher.Request, from HashSource) (hash uint64, ok bool) {
	switch p.Kind {
	case HashHeader:
		values := p.values(r, from.Pace)
		return hashing.Sum(values...), len(values) > 0
	case HashCookie:
		value, _ := r.Cookie(p.Name)
		if value == "" && p.New != nil && from.NewCookie != nil {
			value = from.NewCookie(p)
		}
		return hashing.Sum(value), value != ""
	case HashSourceIP:
		return hashing.Sum(from.IP), from.IP != ""
	default:
		value, found := r.QueryValue(p.Name)
		return hashing.Sum(value), found
	}
}

// values are those of the header. Their order is of no consequence: Envoy sorts them.
func (p *HashPolicy) values(r *matcher.Request, pace matcher.Pace) []string {
	values := slices.Clone(r.Header(p.Name))
	if pace == nil {
		pace = matcher.Unpaced
	}
	if p.Rewrite != nil {
		for i := range values {
			values[i] = p.Rewrite.ReplaceAt(pace, values[i])
		}
	}
	slices.Sort(values)
	return values
}

// SetCookie is the Set-Cookie field that gives a client the cookie, in Envoy's form.
func (p *HashPolicy) SetCookie(value string) string { return p.New.setCookie(p.Name, value) }

func (c *NewCookie) setCookie(name, value string) string {
	var b strings.Builder
	b.WriteString(name + `="` + value + `"`)
	if c.TTL > 0 {
		b.WriteString("; Max-Age=" + strconv.FormatInt(int64(c.TTL/time.Second), 10))
	}
	if c.Path != "" {
		b.WriteString("; Path=" + c.Path)
	}
	for _, a := range c.Attributes {
		b.WriteString("; " + a.Name)
		if a.Value != "" {
			b.WriteString("=" + a.Value)
		}
	}
	b.WriteString("; HttpOnly")
	return b.String()
}

// Hashing is how RingHash and Maglev give keys to endpoints. The zero value is not valid: DefaultHashing holds Envoy's defaults.
type Hashing struct {
	// Ring of RingHash (RingHashLbConfig), with MURMUR_HASH_2 in place of XX_HASH where Murmur is set.
	Ring   hashing.RingSize
	Murmur bool
	// TableSize of Maglev, a prime number up to hashing.MaxMaglevSize (MaglevLbConfig.table_size).
	TableSize uint64
	// BalanceFactor bounds the requests of an endpoint to that many percent of its share, at least 100; 0 does not
	// (ConsistentHashingLbConfig.hash_balance_factor).
	BalanceFactor uint32
	// Policies in place of the routes' (ConsistentHashingLbConfig.hash_policy); none leaves those.
	Policies HashPolicies
}

// DefaultHashing is that of a cluster which says nothing about it.
func DefaultHashing() Hashing {
	return Hashing{Ring: hashing.DefaultRingSize, TableSize: hashing.DefaultMaglevSize}
}
