// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// GRPCContentType begins the content type of every gRPC request.
const GRPCContentType = "application/grpc"

// isGRPC is Envoy's rule for RouteMatch.grpc: the content type is
// "application/grpc", or that and something behind a "+".
func (r *Request) isGRPC() bool {
	values := r.values("content-type")
	if len(values) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(values[0], GRPCContentType)
	return ok && (rest == "" || rest[0] == '+')
}
