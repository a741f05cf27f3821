// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// checkVersion does what the listener says of HTTP/1.0 (Http1ProtocolOptions). A request that names no host gets the default one, so that
// all requests have one from here on. ok is false for a request that is refused; as in Envoy its connection closes.
func (x *exchange) checkVersion() (answer reply.Answer, ok bool) {
	if !x.Head.HTTP10 {
		return reply.Answer{}, true
	}
	var rule model.HTTP10
	if table, found := x.proxy.config.Table(x.session.Listener); found {
		rule = table.HTTP10
	}
	if !rule.Accept {
		return reply.Answer{Status: http.StatusUpgradeRequired, Close: true}, false
	}
	if x.Head.Authority == "" {
		x.Head.Authority = rule.DefaultHost
	}
	if x.Head.Authority == "" {
		return reply.Answer{Status: http.StatusBadRequest, Close: true}, false
	}
	return reply.Answer{}, true
}
