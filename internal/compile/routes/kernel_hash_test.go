// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/suite"
)

// hashing is a table with one route, of these policies.
func hashing(policies ...model.HashPolicy) *model.RouteTable {
	r := routeTo("/")
	r.Hash = policies
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: []*model.Route{r}}}}
}

// hashOf asks the kernel for the hash of a request from an IPv4 address.
func (k *kernel) hashOf(listener uint32, head string, source netip.Addr) maps.Explanation {
	k.t.Helper()
	e, err := k.datapath.ExplainFrom(listener, source, []byte(head))
	if err != nil {
		k.t.Fatal(err)
	}
	return e
}

// requireHash compares the kernel's hash of a request with the model's.
func (k *kernel) requireHash(listener uint32, policies model.HashPolicies, r *matcher.Request, head string, source netip.Addr) {
	k.t.Helper()
	want, ok := policies.Hash(r, model.HashSource{IP: source.String()})
	e := k.hashOf(listener, head, source)
	if maps.Verdict(e.Verdict) != maps.VerdictOk || e.Hash != want || e.Hashed != 0 != ok {
		k.t.Fatalf("%q from %s: the kernel says %s and %#x (%d), the model %#x (%v)",
			head, source, maps.VerdictName(maps.Verdict(e.Verdict)), e.Hash, e.Hashed, want, ok)
	}
}

// Texts of each length that ends in another part of a stripe, and of the longest that fit a head.
func TestKernelHashesTextsOfAllLengths(t *testing.T) {
	k := newKernel(t)
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	policies := model.HashPolicies{{Name: "x-key"}}
	listener := k.load(hashing(policies...))
	source := netip.MustParseAddr("127.0.0.1")
	for n := range 300 {
		if n > 140 {
			n *= 27
		}
		text := randomText(random, n)
		r := matcher.Request{Authority: "a", Path: "/", Method: "GET", Values: func(name string) []string {
			if name == "x-key" {
				return []string{text}
			}
			return nil
		}}
		for _, behind := range []string{"", "x-b: c\r\n"} {
			head := "GET / HTTP/1.1\r\nHost: a\r\nX-Key: " + text + "\r\n" + behind + "\r\n"
			if len(head) < 2900 { // what an explanation takes
				k.requireHash(listener, policies, &r, head, source)
			}
		}
	}
}

func randomText(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + random.IntN(94))
	}
	return string(b)
}

func TestKernelHashesAddresses(t *testing.T) {
	k := newKernel(t)
	policies := model.HashPolicies{{Kind: model.HashSourceIP}}
	listener := k.load(hashing(policies...))
	head := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, source := range []string{"127.0.0.1", "1.2.3.4", "255.255.255.255", "10.99.100.9", "192.168.0.110", "0.0.0.1"} {
		k.requireHash(listener, policies, targetOf("/"), head, netip.MustParseAddr(source))
	}
	forwarded := strings.Replace(head, "\r\n\r\n", "\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n", 1)
	for _, tt := range []struct {
		head   string
		source netip.Addr
	}{{forwarded, netip.MustParseAddr("1.2.3.4")}, {head, netip.Addr{}}} {
		e := k.hashOf(listener, tt.head, tt.source)
		if got := maps.Verdict(e.Verdict); got != maps.HandoverRouteSlow {
			t.Errorf("%q from %s: %s", tt.head, tt.source, maps.VerdictName(got))
		}
	}
}

func TestKernelCombinesHashesAsTheModel(t *testing.T) {
	const tables, requests = 60, 20
	k := newKernel(t)
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	names, parameters := []string{"x-a", "x-b", "accept", "x-c"}, []string{"p", "q"}
	for range tables {
		var policies model.HashPolicies
		for range 1 + random.IntN(4) {
			p := model.HashPolicy{Terminal: random.IntN(4) == 0}
			switch random.IntN(5) {
			case 0:
				p.Kind, p.Name = model.HashQuery, parameters[random.IntN(2)]
			case 1:
				p.Kind = model.HashSourceIP
			default:
				p.Name = names[random.IntN(4)]
			}
			policies = append(policies, p)
		}
		listener := k.load(hashing(policies...))
		for range requests {
			values := map[string][]string{}
			path := "/a"
			if random.IntN(2) == 0 {
				path += "?" + []string{"p=1", "q=2&p=", "x&q", "pp=1&q=q"}[random.IntN(4)]
			}
			for _, name := range names {
				if random.IntN(2) == 0 {
					values[name] = []string{randomText(random, random.IntN(40))}
				}
			}
			r := &matcher.Request{Authority: "a", Path: path, Method: "GET", Values: func(name string) []string { return values[name] }}
			source := netip.AddrFrom4([4]byte{byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256)), byte(1 + random.IntN(255))})
			k.requireHash(listener, policies, r, headOf(r, names...), source)
		}
	}
}

func TestHashesBeyondTheKernelAreHandedOver(t *testing.T) {
	k := newKernel(t)
	many := make([]model.HashPolicy, 5)
	for i := range many {
		many[i].Name = fmt.Sprintf("x-%d", i)
	}
	rewrite, err := matcher.NewSubstitution("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	for name, policies := range map[string][]model.HashPolicy{
		"a cookie":    {{Kind: model.HashCookie, Name: "k"}},
		"a rewrite":   {{Name: "x", Rewrite: rewrite}},
		"the path":    {{Name: ":path"}},
		"the host":    {{Name: "host"}},
		"a long name": {{Name: strings.Repeat("x", int(maps.MaxFieldName)+1)}},
		"many":        many,
	} {
		e := k.hashOf(k.load(hashing(policies...)), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", netip.MustParseAddr("127.0.0.1"))
		if got := maps.Verdict(e.Verdict); got != maps.HandoverRouteSlow {
			t.Errorf("%s: %s", name, maps.VerdictName(got))
		}
	}
}
