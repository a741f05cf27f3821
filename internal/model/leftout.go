// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/plural"
)

// LeftOut is an endpoint that gets no requests and no health checks: XLB cannot speak to it as it is to be spoken to, or they would come back.
type LeftOut struct {
	// Host is an IP address, or a name.
	Host   string
	Port   uint16
	Reason LeftOutReason
	// Socket is the type of the transport socket where that is the reason; with LeftOutTLS the cluster that its secrets are to come from,
	// with LeftOutCircle the listener at its address.
	Socket string
}

// LeftOutReason is why endpoints are left out.
type LeftOutReason uint8

// The reasons.
const (
	LeftOutTLS LeftOutReason = iota
	LeftOutSocket
	LeftOutHTTP2
	LeftOutSource
	LeftOutCircle
	LeftOutReasons = iota
)

// String is a label of metrics.
func (r LeftOutReason) String() string {
	return [LeftOutReasons]string{"tls", "transport_socket", "http2", "upstream_bind_config", "circle"}[r]
}

// Because says what an endpoint expects, and what XLB does.
func (l *LeftOut) Because() string {
	switch l.Reason {
	case LeftOutTLS:
		if l.Socket == "" {
			return "expects TLS, which XLB does not originate to original destinations"
		}
		return fmt.Sprintf("expects TLS with secrets from the cluster %q, which the bootstrap does not have", l.Socket)
	case LeftOutSocket:
		return "expects the transport socket " + l.Socket + ", which XLB does not have"
	case LeftOutHTTP2:
		return "expects HTTP/2; XLB speaks HTTP/1.1 to endpoints"
	case LeftOutCircle:
		return fmt.Sprintf("is the address of listener %q, from where all requests come back; route to the cluster that is meant", l.Socket)
	default:
		return "expects connections from the address of upstream_bind_config; the kernel chooses the address that XLB connects from"
	}
}

// Address is host:port; the host alone where the port is whatever the client asked for.
func (l *LeftOut) Address() string {
	if l.Port == 0 {
		return l.Host
	}
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// LeftOutBy counts the endpoints that are left out by reason.
func (c *Cluster) LeftOutBy() [LeftOutReasons]int {
	var out [LeftOutReasons]int
	for i := range c.LeftOut {
		out[c.LeftOut[i].Reason]++
	}
	return out
}

// LeftOutText says which endpoints are left out, one of each reason by its address; empty: none is.
func (c *Cluster) LeftOutText() string {
	var texts []string
	counts := c.LeftOutBy()
	// Those of circles are still among the targets.
	all := len(c.Targets) + len(c.LeftOut) - counts[LeftOutCircle]
	for i := range c.LeftOut {
		l := &c.LeftOut[i]
		if n := counts[l.Reason]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d of %s left out: %s %s", n, plural.Of(all, "endpoint"), l.Address(), l.Because()))
			counts[l.Reason] = 0
		}
	}
	return strings.Join(texts, "; ")
}
