// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/model"
)

// normalizePath gives the request the path that routes and endpoints see. ok is false for a request that is answered in
// place of being routed, as in Envoy without any filter.
func (x *exchange) normalizePath() (answer localAnswer, ok bool) {
	if x.table == nil {
		return localAnswer{}, true
	}
	x.hop = x.table.Hop
	path, outcome := x.table.Path.Apply(x.head.Path)
	switch outcome {
	case model.PathRefused:
		x.view.KeepAlive = false // as Envoy, of whom it is malformed
		return localAnswer{status: http.StatusBadRequest}, false
	case model.PathRedirected:
		return localAnswer{status: http.StatusTemporaryRedirect, fields: []field{{Name: []byte("location"), Value: []byte(path)}}}, false
	default:
		x.head.Path = path
		return localAnswer{}, true
	}
}
