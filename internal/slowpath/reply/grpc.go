// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// ForGRPC is an answer of our own in the form that a client of gRPC reads: with status 200, and gRPC's status and message in the head (gRPC
// over HTTP/2, "Trailers-Only"). Envoy does the same over HTTP/1.1 (Http::Utility::encodeLocalReply).
func (a Answer) ForGRPC(method string) Answer {
	a.Fields = slices.DeleteFunc(slices.Clone(a.Fields), func(f head.Field) bool { return ascii.EqualFold(string(f.Name), "content-type") })
	a.Fields = append(a.Fields,
		head.Field{Name: []byte("Content-Type"), Value: []byte(matcher.GRPCContentType)},
		head.Field{Name: []byte("grpc-status"), Value: strconv.AppendInt(nil, int64(grpcStatus(a.Status)), 10)})
	if a.Body != "" && method != http.MethodHead {
		a.Fields = append(a.Fields, head.Field{Name: []byte("grpc-message"), Value: []byte(percentEncoded(a.Body))})
	}
	a.Status, a.Body = http.StatusOK, ""
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
