// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// GRPCContentType begins the content type of every gRPC request.
const GRPCContentType = "application/grpc"

// IsGRPC decides for RouteMatch.grpc.
func (r *Request) IsGRPC() bool { return IsGRPC(r.Values("content-type")) }

// IsGRPC reports whether a request with these values of content-type is one of gRPC. That is Envoy's rule
// (Grpc::Common::hasGrpcContentType): the content type is "application/grpc", or that and something behind a "+".
func IsGRPC(contentTypes []string) bool {
	values := Joined("content-type", contentTypes)
	if len(values) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(values[0], GRPCContentType)
	return ok && (rest == "" || rest[0] == '+')
}
