// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
)

// formatResponse is the response that a format may speak of.
type formatResponse struct {
	status int
	// local: it is none of an endpoint. As in Envoy its %RESPONSE_CODE% is 0 still.
	local  bool
	fields []field
}

// format evaluates a text with operators; resp is nil while there is no response.
func (x *exchange) format(f model.Format, resp *formatResponse) string {
	if len(f.Parts) == 1 && f.Parts[0].Kind == model.FormatLiteral {
		return f.Parts[0].Text
	}
	var out strings.Builder
	for i := range f.Parts {
		value := x.formatPart(&f.Parts[i], resp)
		if limit := f.Parts[i].Max; limit > 0 {
			value = value[:min(limit, len(value))]
		}
		out.WriteString(value)
	}
	return out.String()
}

// formatPart is empty for what there is not.
func (x *exchange) formatPart(p *model.FormatPart, resp *formatResponse) string {
	switch p.Kind {
	case model.FormatRequest:
		return eitherOf(p, x.requestValues)
	case model.FormatResponse:
		return eitherOf(p, resp.values)
	case model.FormatRouteName:
		return x.route.Name
	case model.FormatProtocol:
		return ascii.TrimSpace(x.view.Version())
	case model.FormatResponseCode:
		return strconv.Itoa(resp.code())
	case model.FormatUpstreamCluster:
		return x.observedCluster()
	case model.FormatUpstreamClusterRaw:
		return x.target
	case model.FormatUpstreamHost:
		return textOf(x.address)
	case model.FormatRemoteAddress, model.FormatRemoteIP, model.FormatRemotePort:
		return addressPart(x.remote(), p.Kind-model.FormatRemoteAddress)
	case model.FormatDirectAddress, model.FormatDirectIP, model.FormatDirectPort:
		return addressPart(x.direct(), p.Kind-model.FormatDirectAddress)
	case model.FormatTime:
		return x.began.UTC().Format(p.Text)
	case model.FormatSeconds:
		return strconv.FormatInt(x.began.Unix(), 10)
	case model.FormatFraction:
		return fmt.Sprintf("%09d", x.began.Nanosecond())
	default:
		return p.Text
	}
}

// observedCluster is the name by which observers know the cluster of the request.
func (x *exchange) observedCluster() string {
	if c := x.proxy.config.Cluster(x.target); c != nil {
		return c.ObservedAs()
	}
	return x.target
}

// values are those of a response's header; there is none of no response.
func (r *formatResponse) values(name string) []string {
	switch {
	case r == nil:
		return nil
	case name == ":status":
		return []string{strconv.Itoa(r.status)}
	}
	return head.Values(r.fields, name)
}

func (r *formatResponse) code() int {
	if r == nil || r.local {
		return 0
	}
	return r.status
}

// eitherOf is the first value of one header, or of the other where there is none.
func eitherOf(p *model.FormatPart, values func(name string) []string) string {
	found := values(p.Text)
	if len(found) == 0 && p.Other != "" {
		found = values(p.Other)
	}
	return first(found)
}

// requestValues are those of a header or a pseudo header of the request, as Envoy has them.
func (x *exchange) requestValues(name string) []string {
	switch name {
	case ":path":
		return []string{x.head.Path}
	case ":method":
		return []string{x.head.Method}
	case ":scheme":
		return []string{x.scheme()}
	case ":authority":
		return []string{x.head.Authority}
	case "x-forwarded-proto":
		return []string{x.forwardedProto()}
	}
	return model.Joined(name, x.head.Values(name))
}

// addressPart is all of an address, its IP, or its port.
func addressPart(a netip.AddrPort, which model.FormatKind) string {
	switch {
	case !a.IsValid():
		return ""
	case which == 0:
		return a.String()
	case which == 1:
		return a.Addr().String()
	}
	return strconv.Itoa(int(a.Port()))
}

func textOf(a netip.AddrPort) string { return addressPart(a, 0) }

// remote is the client's address: as in Envoy the last of X-Forwarded-For where there
// is one, without a port, else that of the connection.
func (x *exchange) remote() netip.AddrPort {
	if x.client.IsValid() {
		return x.client
	}
	if forwarded := strings.Join(x.head.Values("x-forwarded-for"), ","); forwarded != "" {
		last := forwarded[strings.LastIndexByte(forwarded, ',')+1:]
		if a, err := netip.ParseAddr(strings.Trim(last, " ")); err == nil {
			return netip.AddrPortFrom(a, 0)
		}
	}
	return x.direct()
}

// direct is the address at the other end of the connection; none for what is no TCP.
func (x *exchange) direct() netip.AddrPort {
	a, _ := netip.ParseAddrPort(x.conn.RemoteAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
