// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// response is the response that a format may speak of.
type response struct {
	status int
	// local: no endpoint has made it. As in Envoy its %RESPONSE_CODE% is 0 still.
	local  bool
	fields []head.Field
}

// format evaluates a text with operators; resp is nil while there is no response.
func (r *Request) format(f rewrite.Format, resp *response) string {
	if len(f.Parts) == 1 && f.Parts[0].Kind == rewrite.FormatLiteral {
		return f.Parts[0].Text
	}
	var out strings.Builder
	for i := range f.Parts {
		value := r.formatPart(&f.Parts[i], resp)
		if limit := f.Parts[i].Max; limit > 0 {
			value = value[:min(limit, len(value))]
		}
		out.WriteString(value)
	}
	return out.String()
}

// formatPart is empty for what there is not.
func (r *Request) formatPart(p *rewrite.FormatPart, resp *response) string {
	switch p.Kind {
	case rewrite.FormatRequest:
		return eitherOf(p, r.Values)
	case rewrite.FormatResponse:
		return eitherOf(p, resp.values)
	case rewrite.FormatRouteName:
		return r.Route.Name
	case rewrite.FormatProtocol:
		return ascii.TrimSpace(h1.ClientView{HTTP10: r.Head.HTTP10}.Version())
	case rewrite.FormatResponseCode:
		return strconv.Itoa(resp.code())
	case rewrite.FormatUpstreamCluster:
		return r.observedCluster()
	case rewrite.FormatUpstreamClusterRaw:
		return r.Target
	case rewrite.FormatUpstreamHost:
		return Text(r.Address)
	case rewrite.FormatRemoteAddress, rewrite.FormatRemoteIP, rewrite.FormatRemotePort:
		return addressPart(r.Remote(), p.Kind-rewrite.FormatRemoteAddress)
	case rewrite.FormatDirectAddress, rewrite.FormatDirectIP, rewrite.FormatDirectPort:
		return addressPart(r.direct(), p.Kind-rewrite.FormatDirectAddress)
	case rewrite.FormatTime:
		return r.Began.UTC().Format(p.Text)
	case rewrite.FormatSeconds:
		return strconv.FormatInt(r.Began.Unix(), 10)
	case rewrite.FormatFraction:
		return fmt.Sprintf("%09d", r.Began.Nanosecond())
	default:
		return p.Text
	}
}

// observedCluster is the name by which observers know the cluster of the request.
func (r *Request) observedCluster() string {
	if c := r.Clusters(r.Target); c != nil {
		return c.ObservedAs()
	}
	return r.Target
}

// values are those of a response's header; there is none of no response.
func (r *response) values(name string) []string {
	switch {
	case r == nil:
		return nil
	case name == ":status":
		return []string{strconv.Itoa(r.status)}
	}
	return head.Values(r.fields, name)
}

func (r *response) code() int {
	if r == nil || r.local {
		return 0
	}
	return r.status
}

// eitherOf is the first value of one header, or of the other where there is none.
func eitherOf(p *rewrite.FormatPart, values func(name string) []string) string {
	found := values(p.Text)
	if len(found) == 0 && p.Other != "" {
		found = values(p.Other)
	}
	return First(found)
}

// Values are those of a header or a pseudo header of the request, as Envoy has them.
func (r *Request) Values(name string) []string {
	switch name {
	case ":path":
		return []string{r.Head.Path}
	case ":method":
		return []string{r.Head.Method}
	case ":scheme":
		return []string{r.scheme()}
	case ":authority":
		return []string{r.Head.Authority}
	case "x-forwarded-proto":
		return []string{r.forwardedProto()}
	}
	return matcher.Joined(name, r.Head.Values(name))
}

// addressPart is all of an address, its IP, or its port.
func addressPart(a netip.AddrPort, which rewrite.FormatKind) string {
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

// Text is empty for no address.
func Text(a netip.AddrPort) string { return addressPart(a, 0) }

// Remote is the client's address: as in Envoy the last of X-Forwarded-For where there
// is one, without a port, else that of the connection.
func (r *Request) Remote() netip.AddrPort {
	if r.client.IsValid() {
		return r.client
	}
	if forwarded := strings.Join(r.Head.Values("x-forwarded-for"), ","); forwarded != "" {
		last := forwarded[strings.LastIndexByte(forwarded, ',')+1:]
		if a, err := netip.ParseAddr(strings.Trim(last, " ")); err == nil {
			return netip.AddrPortFrom(a, 0)
		}
	}
	return r.direct()
}

// direct is the address at the other end of the connection; none for what is no TCP.
func (r *Request) direct() netip.AddrPort {
	a, _ := netip.ParseAddrPort(r.Conn.RemoteAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
