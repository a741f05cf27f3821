// SPDX-License-Identifier: Apache-2.0

// Package headers translates what Envoy's messages say of header fields: which requests and responses match, what is
// added and removed, and the texts with operators that give values (%REQ(X)%).
//
// Paths are those of the fields, in Envoy's names from the root of the document. What cannot be served is a problem
// at its path; what is returned then is not put in force.
package headers

import (
	"net/netip"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/problem"
)

// Scope says which messages have the header fields.
type Scope struct {
	// EnvoyHeaders: XLB adds and changes header fields as Envoy's connection manager does (rewrite.EnvoyHeaders).
	EnvoyHeaders bool
	// Manager is the connection manager whose requests have the fields; nil: there is no manager, or it is not known.
	Manager *hcmv3.HttpConnectionManager
	// Address is that of the manager's listener, invalid if it is not known. Many: the listener is for many addresses, and Address is only its own.
	Address netip.AddrPort
	Many    bool
	// Checks: the messages are health checks. They have no client's request to take values from, and come to no listener.
	Checks bool
}

// Reader translates messages about header fields of one scope. Not safe for concurrent use.
type Reader struct {
	p      *problem.List
	values *values.Reader
	scope  Scope
}

// NewReader returns a Reader that reads matchers with v, and reports where v does.
func NewReader(v *values.Reader, s Scope) *Reader { return &Reader{v.Problems(), v, s} }

// ofConnection are the request headers that Envoy's connection manager changes or removes whatever is configured: they are for one connection.
// A match on one of them sees Envoy's value there and the client's value here.
var ofConnection = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true, "transfer-encoding": true, "upgrade": true, "expect": true,
}

// setByManager are those that it sets or removes as it is configured, besides those that begin with x-envoy-. XLB does so with EnvoyHeaders.
var setByManager = map[string]bool{
	"x-forwarded-for": true, "x-forwarded-proto": true, "x-forwarded-client-cert": true, "x-request-id": true,
}

// isSetByEnvoy reports whether the value of a request header is another one in Envoy than the client's.
func (r *Reader) isSetByEnvoy(name string) bool {
	return !r.scope.EnvoyHeaders && (setByManager[name] || strings.HasPrefix(name, "x-envoy-"))
}

// isKnown reports whether XLB, without EnvoyHeaders, knows what Envoy has in such a header. Unless the client's address is that of its connection
// (use_remote_address), X-Forwarded-For is what the client sent, and so is X-Forwarded-Proto, or else http; and so is X-Request-Id where
// none is made. Of a table that stands alone, which may be any listener's, nothing is known.
func (r *Reader) isKnown(name string) bool {
	generated := r.scope.Manager.GetGenerateRequestId()
	switch {
	case r.scope.Manager == nil, r.scope.Manager.GetUseRemoteAddress().GetValue():
		return false
	case name == "x-request-id":
		return generated != nil && !generated.GetValue()
	}
	return name == "x-forwarded-for" || name == "x-forwarded-proto"
}

// matchName is Name where values are compared: the model has what Envoy has in more headers then.
func (r *Reader) matchName(name, path string) string {
	if lower := ascii.Lower(name); lower == "upgrade" || r.isKnown(lower) {
		return lower
	}
	return r.Name(name, path)
}

// Name returns the name of a field of requests as the model has it: in lower case, "host" for :authority. Names whose value here is not what the
// client sent are a problem, and so are pseudo headers that requests do not have.
func (r *Reader) Name(name, path string) string {
	name = ascii.Lower(name)
	switch {
	case name == ":authority":
		return "host"
	case name == ":method", name == ":path", name == ":scheme":
	case strings.HasPrefix(name, ":"):
		r.p.Add(path, "%q: an HTTP/1.1 request has no such pseudo header; use :method, :authority, :path or :scheme", name)
	case ofConnection[name], r.isSetByEnvoy(name):
		r.p.Add(path, "Envoy rewrites %q before it routes, XLB does not; match another header", name)
	}
	return name
}

// FieldValue refuses what would end a header field, or that no field may hold (RFC 9110 section 5.5).
func (r *Reader) FieldValue(value, path string) {
	if !httpguts.ValidHeaderFieldValue(value) {
		r.p.Add(path, "%q: a header holds no control characters; remove them", value)
	}
}
