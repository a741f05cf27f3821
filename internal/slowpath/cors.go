// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"math/rand/v2"
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// preflight looks at where a request comes from (Fetch standard, CORS protocol), and answers one that only asks
// what would be allowed.
func (x *exchange) preflight() (answer reply.Answer, ok bool) {
	policy := x.filters().CORS
	if policy == nil || !policy.Enabled.Holds(rand.Uint64()) {
		return reply.Answer{}, false
	}
	origin := headers.First(x.Values("origin"))
	if origin == "" {
		return reply.Answer{}, false
	}
	allowed := policy.Allows(origin)
	if allowed {
		x.cors, x.origin = policy, origin
	}
	asks := x.Head.Method == http.MethodOptions && headers.First(x.Values("access-control-request-method")) != ""
	if !asks || !allowed && !policy.AnswerAll {
		return reply.Answer{}, false
	}
	return reply.Answer{Status: http.StatusOK, Fields: x.allowances(policy), AsIs: true}, true
}

// allowances are what only a preflight is told. As in Envoy "*" alone allows what it asks for, with credentials or without.
func (x *exchange) allowances(p *model.CORS) (fields []field) {
	add := func(name, value string) { fields = append(fields, field{Name: []byte(name), Value: []byte(value)}) }
	list := func(name, value, asked string) {
		switch value {
		case "":
		case "*":
			add(name, headers.First(x.Values(asked)))
		default:
			add(name, value)
		}
	}
	if p.Credentials {
		add("access-control-allow-credentials", "true")
	}
	list("access-control-allow-methods", p.Methods, "access-control-request-method")
	list("access-control-allow-headers", p.Headers, "access-control-request-headers")
	if p.MaxAge != "" {
		add("access-control-max-age", p.MaxAge)
	}
	if p.PrivateNetwork && headers.First(x.Values("access-control-request-private-network")) == "true" {
		add("access-control-allow-private-network", "true")
	}
	return fields
}

// allowOrigin says in a response of any kind that its origin may read it, in place of what the endpoint says.
func (x *exchange) allowOrigin(fields []field) []field {
	if x.cors == nil {
		return fields
	}
	set := func(name, value string) {
		fields = append(headers.Without(h1.EndToEnd(fields), name), field{Name: []byte(name), Value: []byte(value)})
	}
	set("access-control-allow-origin", x.origin)
	if x.cors.Credentials {
		set("access-control-allow-credentials", "true")
	}
	if x.cors.ExposeHeaders != "" {
		set("access-control-expose-headers", x.cors.ExposeHeaders)
	}
	return fields
}
