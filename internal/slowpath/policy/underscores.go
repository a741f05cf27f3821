// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// CheckNames does what the listener wants done about fields with a "_" in their name, which some servers take for a "-". ok is false for a
// request that is refused; as in Envoy its connection closes.
func CheckNames(r *headers.Request) (answer reply.Answer, ok bool) {
	if r.Table == nil || r.Table.Underscores == rewrite.PassUnderscores {
		return reply.Answer{}, true
	}
	r.EnvoyHeaders = r.Table.EnvoyHeaders
	if r.Table.Underscores == rewrite.DropUnderscores {
		r.Head.Fields = slices.DeleteFunc(r.Head.Fields, head.HasUnderscore)
		return reply.Answer{}, true
	}
	if _, found := head.Underscored(r.Head.Fields); !found {
		return reply.Answer{}, true
	}
	return reply.Answer{Status: http.StatusBadRequest, Body: "Bad Request", Close: true}, false
}
