// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// FormOf names the form in which the page of metrics answers a request. There are a few, whatever the request asks for.
func FormOf(r *http.Request) string {
	return string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)) + " " + encodingOf(r)
}

// encodingOf is how the page is compressed; empty: it is not.
func encodingOf(r *http.Request) string {
	accepted := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	if strings.Contains(accepted, "gzip") && !strings.Contains(accepted, ";") {
		return "gzip"
	}
	return ""
}

// inForm answers all requests whose FormOf is the same alike.
func inForm(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encoding := encodingOf(r)
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", encoding)
		page.ServeHTTP(w, r)
	})
}
