// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// Headers by which a client could tell a proxy what to do, or what it has done.
var (
	// untrusted are taken out of every request: no address is internal to Envoy unless it is told so.
	untrusted = []string{
		"x-envoy-expected-rq-timeout-ms", "x-envoy-force-trace", "x-envoy-hedge-on-per-try-timeout", "x-envoy-internal", "x-envoy-ip-tags",
		"x-envoy-max-retries", "x-envoy-original-url", "x-envoy-retriable-header-names", "x-envoy-retriable-status-codes", "x-envoy-retry-grpc-on",
		"x-envoy-retry-on", "x-envoy-upstream-alt-stat-name", "x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-alt-response",
		"x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-stream-duration-ms", ClientCert,
	}
	// untrustedAtEdge also, where the client is taken for the first one.
	untrustedAtEdge = []string{
		"x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node", "x-envoy-original-host",
		"x-envoy-original-path",
	}
)

const requestID = "x-request-id"

// ClientCert tells a server what certificates its clients had, as proxies before it say. Who speaks to it with a certificate may be believed: so no client of XLB
// says it. In Envoy it never passes unless forward_client_cert_details lets it.
const ClientCert = "x-forwarded-client-cert"

// ReceiveRequest gives a request what Envoy's connection manager does before it looks for a route. ok is false for one that it
// refuses: a target of https over a connection that is none.
func (r *Request) ReceiveRequest() (answer reply.Answer, ok bool) {
	if r.EnvoyHeaders == nil {
		return reply.Answer{}, true
	}
	rule := r.EnvoyHeaders
	if rule.UseRemoteAddress && rule.TrustedHops == 0 && ascii.EqualFold(r.Head.Scheme, "https") {
		return reply.Answer{Status: http.StatusForbidden, Body: "Forbidden", Close: true}, false
	}
	r.received = true
	fields := slices.DeleteFunc(h1.EndToEnd(r.Head.Fields), func(f head.Field) bool {
		return f.IsAny(untrusted) || rule.UseRemoteAddress && f.IsAny(untrustedAtEdge)
	})
	r.client = r.clientOf(rule, fields)
	if rule.UseRemoteAddress {
		fields = r.atEdge(rule, fields)
	}
	if len(head.Values(fields, "x-forwarded-proto")) == 0 {
		fields = append(fields, head.Field{Name: []byte("x-forwarded-proto"), Value: []byte("http")})
	}
	fields = appendVia(fields, rule.Via)
	if rule.GenerateRequestID {
		fields = identified(rule, fields)
	}
	r.Head.Fields = fields
	return reply.Answer{}, true
}

// identified sees to it that a request has an X-Request-ID.
func identified(rule *rewrite.EnvoyHeaders, fields []head.Field) []head.Field {
	id := []byte(listOf(fields, requestID))
	switch {
	case strings.Trim(string(id), ",") == "", rule.UseRemoteAddress && !rule.PreserveRequestID:
		return Set(fields, requestID, uuid.NewString())
	case rule.UseRemoteAddress && len(id) == traceReason.size:
		id[traceReason.at] = traceReason.none
		return Set(fields, requestID, string(id))
	}
	return fields
}

// traceReason is where Envoy keeps in a UUID why a request is traced. No client may say so to the first hop.
var traceReason = struct {
	size, at int
	none     byte
}{36, 14, '4'}

// atEdge tells the endpoint where a request has come from.
func (r *Request) atEdge(rule *rewrite.EnvoyHeaders, fields []head.Field) []head.Field {
	fields = Set(fields, "x-envoy-external-address", r.client.Addr().String())
	if !rule.SkipForwardedFor {
		own := r.direct().Addr()
		if own.IsLoopback() {
			own = localIPv4() // as Envoy: a loopback address means nothing elsewhere
		}
		fields = appendToList(fields, "x-forwarded-for", ",", own.String())
	}
	if rule.TrustedHops == 0 {
		fields = Set(fields, "x-forwarded-proto", "http")
	}
	return fields
}

// clientOf is who the request is said to come from: the last of X-Forwarded-For that no trusted hop has appended.
func (r *Request) clientOf(rule *rewrite.EnvoyHeaders, fields []head.Field) netip.AddrPort {
	back := int(rule.TrustedHops)
	if rule.UseRemoteAddress {
		back-- // one hop is at the other end of the connection
	}
	list := strings.Split(listOf(fields, "x-forwarded-for"), ",")
	if back < 0 || back >= len(list) {
		return r.direct()
	}
	a, err := netip.ParseAddr(strings.Trim(list[len(list)-1-back], " "))
	if err != nil {
		return r.direct()
	}
	return netip.AddrPortFrom(a, 0)
}

// localIPv4 is this machine's first IPv4 address that means something elsewhere, as Envoy finds it.
var localIPv4 = sync.OnceValue(func() netip.Addr {
	addresses, _ := net.InterfaceAddrs() // without any it is the loopback address
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
})

// AnnounceTimeout tells the endpoint how long its answer may take.
func (r *Request) AnnounceTimeout() {
	if r.addsEnvoyHeaders() && r.Route.Timeout > 0 {
		r.Head.Fields = Set(r.Head.Fields, "x-envoy-expected-rq-timeout-ms", strconv.FormatInt(r.Route.Timeout.Milliseconds(), 10))
	}
}

// AnnounceAttempt tells the endpoint how often the request has been sent.
func (r *Request) AnnounceAttempt() {
	if r.Route.CountAttempts {
		r.Head.Fields = Set(r.Head.Fields, "x-envoy-attempt-count", strconv.Itoa(max(r.Attempts, 1)))
	}
}

// announce tells the endpoint what was asked for, in place of which the route asks for something else.
func (r *Request) announce(name, given string) {
	if r.addsEnvoyHeaders() {
		r.Head.Fields = Set(r.Head.Fields, name, given)
	}
}

func (r *Request) addsEnvoyHeaders() bool {
	return r.EnvoyHeaders != nil && !r.EnvoyHeaders.SuppressEnvoyHeaders
}

// AddServiceTime tells the client how long the endpoint has taken. As in Envoy nobody knows of a request that has not ended.
// read is how long it took to read the request, 0: it has not been read whole.
func (r *Request) AddServiceTime(fields []head.Field, read time.Duration) []head.Field {
	if !r.addsEnvoyHeaders() || r.Head.Upgrade || r.Head.Connect() {
		return fields
	}
	if read == 0 {
		return fields
	}
	took := max(time.Since(r.Began)-read, 0)
	return Set(fields, "x-envoy-upstream-service-time", strconv.FormatInt(took.Milliseconds(), 10))
}

// FinishResponse gives a response, of whomever, what Envoy's connection manager does behind all filters.
func (r *Request) FinishResponse(fields []head.Field) []head.Field {
	if r.EnvoyHeaders == nil {
		return fields
	}
	fields = FinishOwn(r.EnvoyHeaders, fields)
	if ids := r.Head.Values(requestID); r.received && r.EnvoyHeaders.RequestIDInResponse && len(ids) > 0 {
		fields = Set(fields, requestID, strings.Join(ids, ","))
	}
	return fields
}

// FinishOwn finishes the fields of an answer as far as that needs no request.
func FinishOwn(rule *rewrite.EnvoyHeaders, fields []head.Field) []head.Field {
	fields = h1.EndToEnd(fields)
	if len(head.Values(fields, "date")) == 0 {
		fields = append(fields, head.Field{Name: []byte("date"), Value: time.Now().UTC().AppendFormat(nil, http.TimeFormat)})
	}
	hasServer := slices.ContainsFunc(fields, func(f head.Field) bool { return f.Is("server") })
	if rule.Server == rewrite.ServerOverwrite || rule.Server == rewrite.ServerAppendIfAbsent && !hasServer {
		fields = Set(fields, "server", rule.ServerName)
	}
	return appendVia(fields, rule.Via)
}

func appendVia(fields []head.Field, via string) []head.Field {
	if via == "" {
		return fields
	}
	return appendToList(fields, "via", ", ", via)
}
