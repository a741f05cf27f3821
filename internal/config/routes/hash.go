// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// hashPolicies translates a list at that path, without those that never have a hash.
func (t *translator) hashPolicies(in []*routev3.RouteAction_HashPolicy, path string) model.HashPolicies {
	var out model.HashPolicies
	for i, p := range in {
		place := problem.At(path, i)
		policy := model.HashPolicy{Terminal: p.GetTerminal()}
		switch s := p.GetPolicySpecifier().(type) {
		case *routev3.RouteAction_HashPolicy_Header_:
			policy.Name = t.headers.Name(s.Header.GetHeaderName(), place+".header.header_name")
			policy.Rewrite = t.substitution(s.Header.GetRegexRewrite(), place+".header.regex_rewrite")
		case *routev3.RouteAction_HashPolicy_Cookie_:
			policy.Kind, policy.Name = model.HashCookie, s.Cookie.GetName()
			policy.New = t.newCookie(s.Cookie, place+".cookie")
		case *routev3.RouteAction_HashPolicy_ConnectionProperties_:
			if !s.ConnectionProperties.GetSourceIp() {
				continue
			}
			policy.Kind = model.HashSourceIP
		case *routev3.RouteAction_HashPolicy_QueryParameter_:
			policy.Kind, policy.Name = model.HashQuery, s.QueryParameter.GetName()
		default:
			t.p.Add(place, "needs header, cookie, connection_properties or query_parameter")
			continue
		}
		out = append(out, policy)
	}
	return out
}

// newCookie is nil where the policy makes none.
func (t *translator) newCookie(c *routev3.RouteAction_HashPolicy_Cookie, path string) *model.NewCookie {
	if c.GetTtl() == nil {
		return nil
	}
	if !httpguts.ValidHeaderFieldName(c.GetName()) {
		t.p.Add(path+".name", "%q is no name of a cookie that can be set; write a token (RFC 6265 section 4.1.1)", c.GetName())
	}
	out := &model.NewCookie{TTL: t.Duration(c.GetTtl(), 0, path+".ttl").Truncate(time.Second), Path: c.GetPath()}
	t.inCookie(c.GetPath(), path+".path")
	for i, a := range c.GetAttributes() {
		out.Attributes = append(out.Attributes, model.CookieAttribute{Name: a.GetName(), Value: a.GetValue()})
		t.inCookie(a.GetName(), problem.At(path+".attributes", i)+".name")
		t.inCookie(a.GetValue(), problem.At(path+".attributes", i)+".value")
	}
	return out
}

// inCookie refuses what would end a cookie's attribute, or the header.
func (t *translator) inCookie(text, path string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == ';' }) {
		t.p.Add(path, "%q: an attribute of a cookie holds visible ASCII without a semicolon (RFC 6265 section 4.1.1); leave the rest out", text)
	}
}
