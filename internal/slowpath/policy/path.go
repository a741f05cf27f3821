// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// NormalizePath gives the request the path that routes and endpoints see. ok is false for a request that is answered in
// place of being routed, as in Envoy without any filter.
func NormalizePath(r *headers.Request) (answer reply.Answer, ok bool) {
	if r.Table == nil {
		return reply.Answer{}, true
	}
	r.EnvoyHeaders = r.Table.EnvoyHeaders
	path, outcome := r.Table.Path.Apply(r.Head.Path)
	switch outcome {
	case rewrite.PathRefused:
		return reply.Answer{Status: http.StatusBadRequest, Close: true}, false // as Envoy, of whom it is malformed
	case rewrite.PathRedirected:
		return reply.Answer{Status: http.StatusTemporaryRedirect, Fields: []head.Field{{Name: []byte("location"), Value: []byte(path)}}}, false
	default:
		r.Head.Path = path
		return reply.Answer{}, true
	}
}
