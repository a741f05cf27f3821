// SPDX-License-Identifier: Apache-2.0

package slowpath

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
	"github.com/xlb-project/xlb/internal/model"
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
		"x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-stream-duration-ms", clientCert,
	}
	// untrustedAtEdge also, where the client is taken for the first one.
	untrustedAtEdge = []string{
		"x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node", "x-envoy-original-host",
		"x-envoy-original-path",
	}
)

const requestID = "x-request-id"

// enterHop gives a request what Envoy's connection manager does before it looks for a route. ok is false for one that it
// refuses: a target of https over a connection that is none.
func (x *exchange) enterHop() (answer reply.Answer, ok bool) {
	if x.hop == nil {
		return reply.Answer{}, true
	}
	hop := x.hop
	if hop.UseRemoteAddress && hop.TrustedHops == 0 && ascii.EqualFold(x.head.Scheme, "https") {
		return reply.Answer{Status: http.StatusForbidden, Body: "Forbidden", Close: true}, false
	}
	x.entered = true
	fields := slices.DeleteFunc(h1.EndToEnd(x.head.Fields), func(f field) bool {
		return f.IsAny(untrusted) || hop.UseRemoteAddress && f.IsAny(untrustedAtEdge)
	})
	x.client = x.clientOf(hop, fields)
	if hop.UseRemoteAddress {
		fields = x.atEdge(hop, fields)
	}
	if len(head.Values(fields, "x-forwarded-proto")) == 0 {
		fields = append(fields, field{Name: []byte("x-forwarded-proto"), Value: []byte("http")})
	}
	fields = appendVia(fields, hop.Via)
	if hop.GenerateRequestID {
		fields = identified(hop, fields)
	}
	x.head.Fields = fields
	return reply.Answer{}, true
}

// identified sees to it that a request has an X-Request-ID.
func identified(hop *model.Hop, fields []field) []field {
	id := []byte(listOf(fields, requestID))
	switch {
	case strings.Trim(string(id), ",") == "", hop.UseRemoteAddress && !hop.PreserveRequestID:
		return setField(fields, requestID, uuid.NewString())
	case hop.UseRemoteAddress && len(id) == traceReason.size:
		id[traceReason.at] = traceReason.none
		return setField(fields, requestID, string(id))
	}
	return fields
}

// traceReason is where Envoy keeps in a UUID why a request is traced. No client may say so to the first hop.
var traceReason = struct {
	size, at int
	none     byte
}{36, 14, '4'}

// atEdge tells the endpoint where a request has come from.
func (x *exchange) atEdge(hop *model.Hop, fields []field) []field {
	fields = setField(fields, "x-envoy-external-address", x.client.Addr().String())
	if !hop.SkipForwardedFor {
		own := x.direct().Addr()
		if own.IsLoopback() {
			own = localIPv4() // as Envoy: a loopback address means nothing elsewhere
		}
		fields = appendToList(fields, "x-forwarded-for", ",", own.String())
	}
	if hop.TrustedHops == 0 {
		fields = setField(fields, "x-forwarded-proto", "http")
	}
	return fields
}

// clientOf is who the request is said to come from: the last of X-Forwarded-For that no trusted hop has appended.
func (x *exchange) clientOf(hop *model.Hop, fields []field) netip.AddrPort {
	back := int(hop.TrustedHops)
	if hop.UseRemoteAddress {
		back-- // one hop is at the other end of the connection
	}
	list := strings.Split(listOf(fields, "x-forwarded-for"), ",")
	if back < 0 || back >= len(list) {
		return x.direct()
	}
	a, err := netip.ParseAddr(strings.Trim(list[len(list)-1-back], " "))
	if err != nil {
		return x.direct()
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

// announceTimeout tells the endpoint how long its answer may take.
func (x *exchange) announceTimeout() {
	if x.addsEnvoyHeaders() && x.route.Timeout > 0 {
		x.head.Fields = setField(x.head.Fields, "x-envoy-expected-rq-timeout-ms", strconv.FormatInt(x.route.Timeout.Milliseconds(), 10))
	}
}

// announceAttempt tells the endpoint how often the request has been sent.
func (x *exchange) announceAttempt() {
	if x.route.CountAttempts {
		x.head.Fields = setField(x.head.Fields, "x-envoy-attempt-count", strconv.Itoa(max(x.attempts, 1)))
	}
}

// announce tells the endpoint what was asked for, in place of which the route asks for something else.
func (x *exchange) announce(name, given string) {
	if x.addsEnvoyHeaders() {
		x.head.Fields = setField(x.head.Fields, name, given)
	}
}

func (x *exchange) addsEnvoyHeaders() bool { return x.hop != nil && !x.hop.SuppressEnvoyHeaders }

// addServiceTime tells the client how long the endpoint has taken. As in Envoy nobody knows of a request that has not ended.
func (x *exchange) addServiceTime(fields []field) []field {
	if !x.addsEnvoyHeaders() || x.head.Upgrade || x.head.Connect() {
		return fields
	}
	read := x.readAfter.Load()
	if read == 0 {
		return fields
	}
	took := max(time.Since(x.began)-time.Duration(read), 0)
	return setField(fields, "x-envoy-upstream-service-time", strconv.FormatInt(took.Milliseconds(), 10))
}

// noteRead notes when the request has been read whole.
func (x *exchange) noteRead() {
	x.readAfter.Store(max(int64(time.Since(x.began)), 1))
	close(x.whole)
}

// leaveHop gives a response, of whomever, what Envoy's connection manager does behind all filters.
func (x *exchange) leaveHop(fields []field) []field {
	if x.hop == nil {
		return fields
	}
	fields = dressed(x.hop, fields)
	if ids := x.head.Values(requestID); x.entered && x.hop.RequestIDInResponse && len(ids) > 0 {
		fields = setField(fields, requestID, strings.Join(ids, ","))
	}
	return fields
}

// dressed is what needs no request.
func dressed(hop *model.Hop, fields []field) []field {
	fields = h1.EndToEnd(fields)
	if len(head.Values(fields, "date")) == 0 {
		fields = append(fields, field{Name: []byte("date"), Value: time.Now().UTC().AppendFormat(nil, http.TimeFormat)})
	}
	hasServer := slices.ContainsFunc(fields, func(f field) bool { return f.Is("server") })
	if hop.Server == model.ServerOverwrite || hop.Server == model.ServerAppendIfAbsent && !hasServer {
		fields = setField(fields, "server", hop.ServerName)
	}
	return appendVia(fields, hop.Via)
}

func appendVia(fields []field, via string) []field {
	if via == "" {
		return fields
	}
	return appendToList(fields, "via", ", ", via)
}

// appendToList makes one field of a list that may have several lines, with one more element.
func appendToList(fields []field, name, separator, element string) []field {
	if list := listOf(fields, name); list != "" {
		element = list + separator + element
	}
	return setField(fields, name, element)
}

// listOf is the list that several lines of a field are; as in Envoy empty lines are none of it.
func listOf(fields []field, name string) string {
	return strings.Join(slices.DeleteFunc(head.Values(fields, name), func(v string) bool { return v == "" }), ",")
}

// setField makes one field of all lines with its name, or adds it.
func setField(fields []field, name, value string) []field {
	return append(without(fields, name), field{Name: []byte(name), Value: []byte(value)})
}
