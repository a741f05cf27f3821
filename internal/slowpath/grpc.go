// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
)

// isGRPC reports a request of gRPC. One whose head could not be read is none.
func (x *exchange) isGRPC() bool {
	return model.IsGRPC(x.head.Values("content-type"))
}

// asGRPC is an answer of our own in the form that a client of gRPC reads: with status 200, and gRPC's status and message in the head (gRPC
// over HTTP/2, "Trailers-Only"). Envoy does the same over HTTP/1.1 (Http::Utility::encodeLocalReply).
func (a localAnswer) asGRPC(method string) localAnswer {
	a.fields = slices.DeleteFunc(slices.Clone(a.fields), func(f field) bool { return ascii.EqualFold(string(f.Name), "content-type") })
	a.fields = append(a.fields,
		field{Name: []byte("Content-Type"), Value: []byte(model.GRPCContentType)},
		field{Name: []byte("grpc-status"), Value: strconv.AppendInt(nil, int64(grpcStatus(a.status)), 10)})
	if a.body != "" && method != http.MethodHead {
		a.fields = append(a.fields, field{Name: []byte("grpc-message"), Value: []byte(percentEncoded(a.body))})
	}
	a.status, a.body = http.StatusOK, ""
	return a
}

// Codes of gRPC.
const (
	grpcUnknown          = 2
	grpcPermissionDenied = 7
	grpcUnimplemented    = 12
	grpcInternal         = 13
	grpcUnavailable      = 14
	grpcUnauthenticated  = 16
)

// grpcStatus is gRPC's code for a status of HTTP (gRPC, "HTTP to gRPC Status Code Mapping"). Success is unknown, too: it has no message.
func grpcStatus(status int) int {
	switch status {
	case http.StatusBadRequest:
		return grpcInternal
	case http.StatusUnauthorized:
		return grpcUnauthenticated
	case http.StatusForbidden:
		return grpcPermissionDenied
	case http.StatusNotFound:
		return grpcUnimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return grpcUnavailable
	}
	return grpcUnknown
}

// percentEncoded is a message as it may stand in a header: what is not printable ASCII, "%" and "~" are escaped (gRPC over HTTP/2, "Status-Message";
// the "~" as Envoy has it).
func percentEncoded(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= '~' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
