// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// CheckVersion does what the listener says of a request of HTTP/1.0 (Http1ProtocolOptions). One that names no host gets the default one, so that
// all requests have one from here on. ok is false for a request that is refused; as in Envoy its connection closes.
func CheckVersion(r *headers.Request, table *model.RouteTable) (answer reply.Answer, ok bool) {
	var rule model.HTTP10
	if table != nil {
		rule = table.HTTP10
	}
	if !rule.Accept {
		return reply.Answer{Status: http.StatusUpgradeRequired, Close: true}, false
	}
	if r.Head.Authority == "" {
		r.Head.Authority = rule.DefaultHost
	}
	if r.Head.Authority == "" {
		return reply.Answer{Status: http.StatusBadRequest, Close: true}, false
	}
	return reply.Answer{}, true
}
