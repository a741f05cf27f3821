// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/upstream"
)

// connecting is how connections to endpoints are made and kept, until base ends.
func (c *Config) connecting(base context.Context) conns.Config {
	out := conns.Config{
		Base: base, Dial: c.Dial,
		PerEndpoint: c.Limits.IdlePerEndpoint, Keep: c.Limits.UpstreamIdle, Briefly: c.Limits.BriefIdle,
	}
	if dial := c.DialInner; dial != nil {
		out.DialInner = func(ctx context.Context, endpoint netip.AddrPort, from upstream.Origin) (conns.InnerConn, error) {
			return dial(ctx, endpoint, from)
		}
	}
	if secure := c.Secure; secure != nil {
		out.Secure = func(ctx context.Context, conn net.Conn, to conns.Target) (net.Conn, error) {
			return secure(ctx, conn, Target(to))
		}
	}
	return out
}

// destinationOf is that of a request, for that host, or of what else is sent to an endpoint. Where it is a listener of this process onward says
// for whom.
func destinationOf(e Picked, host string, http bool, onward func() upstream.Origin) conns.Destination {
	out := conns.Destination{Address: e.Address(), Inner: isInner(e)}
	if out.Inner {
		out.From = onward()
	}
	if s, ok := e.(Secured); ok {
		if tls, hostname := s.Security(); tls != nil {
			out.Target = &conns.Target{TLS: tls, Hostname: hostname, Host: host, HTTP: http}
		}
	}
	return out
}

// established is Envoy's own answer to CONNECT.
func established() *h1.Response {
	date := time.Now().UTC().Format(http.TimeFormat)
	return &h1.Response{Status: http.StatusOK, Reason: "OK", Fields: []field{{Name: []byte("Date"), Value: []byte(date)}}}
}
