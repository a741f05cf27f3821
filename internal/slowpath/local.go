// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// localAnswer is a response of the proxy itself: a local reply, or what a route answers.
type localAnswer struct {
	status int
	flag   Flag
	body   string
	// fields besides those of the framing, of the connection and the date. A
	// content type of their own goes before the usual one.
	fields []field
	// asIs: what the route changes in responses is not for this one.
	asIs bool
}

// localAnswer is the reply in full.
func (r LocalReply) localAnswer() localAnswer {
	return localAnswer{status: replies[r].status, flag: replies[r].flag, body: replies[r].body}
}

// routeAnswer is what a route answers where it asks no endpoint.
func (x *exchange) routeAnswer() localAnswer {
	direct := x.route.Direct
	if direct == nil {
		return x.redirect(x.route.Redirect)
	}
	a := localAnswer{status: direct.Status, body: direct.Body}
	if a.status == http.StatusCreated || a.status/100 == 3 {
		// As in Envoy the client is told the address that it asked for.
		a.fields = x.redirect(&model.Redirect{}).fields
	}
	return a
}

// write writes and flushes the answer.
func (a localAnswer) write(w *h1.Writer, view h1.ClientView) error {
	return w.Local(a.status, a.fields, a.body, view)
}
