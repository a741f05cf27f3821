// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// normalizePath gives the request the path that routes and endpoints see. ok is false for a request that is answered in
// place of being routed, as in Envoy without any filter.
func (x *exchange) normalizePath() (answer reply.Answer, ok bool) {
	if x.Table == nil {
		return reply.Answer{}, true
	}
	x.EnvoyHeaders = x.Table.Hop
	path, outcome := x.Table.Path.Apply(x.Head.Path)
	switch outcome {
	case model.PathRefused:
		return reply.Answer{Status: http.StatusBadRequest, Close: true}, false // as Envoy, of whom it is malformed
	case model.PathRedirected:
		return reply.Answer{Status: http.StatusTemporaryRedirect, Fields: []field{{Name: []byte("location"), Value: []byte(path)}}}, false
	default:
		x.Head.Path = path
		return reply.Answer{}, true
	}
}
