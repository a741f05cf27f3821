// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// checkNames does what the listener wants done about fields with a "_" in their name, which some servers take for a "-". ok is false for a
// request that is refused; as in Envoy its connection closes.
func (x *exchange) checkNames() (answer reply.Answer, ok bool) {
	if x.Table == nil || x.Table.Underscores == model.PassUnderscores {
		return reply.Answer{}, true
	}
	x.EnvoyHeaders = x.Table.Hop
	if x.Table.Underscores == model.DropUnderscores {
		x.Head.Fields = slices.DeleteFunc(x.Head.Fields, head.HasUnderscore)
		return reply.Answer{}, true
	}
	if _, found := head.Underscored(x.Head.Fields); !found {
		return reply.Answer{}, true
	}
	return reply.Answer{Status: http.StatusBadRequest, Body: "Bad Request", Close: true}, false
}
