// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// checkNames does what the listener wants done about fields with a "_" in their name, which some servers take for a "-". ok is false for a
// request that is refused; as in Envoy its connection closes.
func (x *exchange) checkNames() (answer localAnswer, ok bool) {
	if x.table == nil || x.table.Underscores == model.PassUnderscores {
		return localAnswer{}, true
	}
	x.hop = x.table.Hop
	has := func(f field) bool { return bytes.IndexByte(f.name, '_') >= 0 }
	if x.table.Underscores == model.DropUnderscores {
		x.head.fields = slices.DeleteFunc(x.head.fields, has)
		return localAnswer{}, true
	}
	if !slices.ContainsFunc(x.head.fields, has) {
		return localAnswer{}, true
	}
	x.view.keepAlive = false
	return localAnswer{status: http.StatusBadRequest, body: "Bad Request"}, false
}
