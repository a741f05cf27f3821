// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"net/http"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// CORS is what the origin of a request is allowed, if anything is.
type CORS struct {
	rule   *model.CORS // allows origin to read the response; nil: there is nothing to allow
	origin string
}

// Preflight looks at where a request comes from (Fetch standard, CORS protocol), and answers one that only asks
// what would be allowed.
func (c *CORS) Preflight(r *headers.Request) (answer reply.Answer, ok bool) {
	policy := Filters(r).CORS
	if policy == nil || !policy.Enabled.Holds(rand.Uint64()) {
		return reply.Answer{}, false
	}
	origin := headers.First(r.Values("origin"))
	if origin == "" {
		return reply.Answer{}, false
	}
	allowed := policy.Allows(origin)
	if allowed {
		c.rule, c.origin = policy, origin
	}
	asks := r.Head.Method == http.MethodOptions && headers.First(r.Values("access-control-request-method")) != ""
	if !asks || !allowed && !policy.AnswerAll {
		return reply.Answer{}, false
	}
	return reply.Answer{Status: http.StatusOK, Fields: allowances(r, policy), AsIs: true}, true
}

// allowances are what only a preflight is told. As in Envoy "*" alone allows what it asks for, with credentials or without.
func allowances(r *headers.Request, p *model.CORS) (fields []head.Field) {
	add := func(name, value string) {
		fields = append(fields, head.Field{Name: []byte(name), Value: []byte(value)})
	}
	list := func(name, value, asked string) {
		switch value {
		case "":
		case "*":
			add(name, headers.First(r.Values(asked)))
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
	if p.PrivateNetwork && headers.First(r.Values("access-control-request-private-network")) == "true" {
		add("access-control-allow-private-network", "true")
	}
	return fields
}

// AllowOrigin says in a response of any kind that its origin may read it, in place of what the endpoint says.
func (c *CORS) AllowOrigin(fields []head.Field) []head.Field {
	if c.rule == nil {
		return fields
	}
	set := func(name, value string) {
		fields = append(headers.Without(h1.EndToEnd(fields), name), head.Field{Name: []byte(name), Value: []byte(value)})
	}
	set("access-control-allow-origin", c.origin)
	if c.rule.Credentials {
		set("access-control-allow-credentials", "true")
	}
	if c.rule.ExposeHeaders != "" {
		set("access-control-expose-headers", c.rule.ExposeHeaders)
	}
	return fields
}
