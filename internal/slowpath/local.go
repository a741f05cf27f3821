// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
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

// local writes and flushes an answer. With HEAD the body is left out.
func (w *clientWriter) local(a localAnswer, view clientView) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	b := appendLocalHead(make([]byte, 0, 512), a, view)
	if view.method != http.MethodHead {
		b = append(b, a.body...)
	}
	if err := w.writeThrough(b); err != nil {
		return err
	}
	return w.conn.SetWriteDeadline(time.Time{})
}

func appendLocalHead(b []byte, a localAnswer, view clientView) []byte {
	b = append(b, view.version()...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.status)...)
	b = append(b, "\r\n"...)
	if a.status != http.StatusNoContent {
		b = appendLength(b, int64(len(a.body)))
	}
	if a.body != "" && len(head.Values(a.fields, "content-type")) == 0 {
		b = appendField(b, "Content-Type", "text/plain")
	}
	for _, f := range a.fields {
		b = appendField(b, f.Name, f.Value)
	}
	if len(head.Values(a.fields, "date")) == 0 {
		b = append(b, "Date: "...)
		b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
		b = append(b, "\r\n"...)
	}
	b = append(b, view.persistence()...)
	return append(b, "\r\n"...)
}
