// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
)

// checkNames does what the listener wants done about fields with a "_" in their name, which some servers take for a "-". ok is false for a
// request that is refused; as in Envoy its connection closes.
func (x *exchange) checkNames() (answer localAnswer, ok bool) {
	if x.table == nil || x.table.Underscores == model.PassUnderscores {
		return localAnswer{}, true
	}
	x.hop = x.table.Hop
	if x.table.Underscores == model.DropUnderscores {
		x.head.Fields = slices.DeleteFunc(x.head.Fields, head.HasUnderscore)
		return localAnswer{}, true
	}
	if _, found := head.Underscored(x.head.Fields); !found {
		return localAnswer{}, true
	}
	x.view.KeepAlive = false
	return localAnswer{status: http.StatusBadRequest, body: "Bad Request"}, false
}
