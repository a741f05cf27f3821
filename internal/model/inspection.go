// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/ascii"
)

// Inspection decides by the first bytes of a connection what serves it (envoy.config.listener.v3.FilterChainMatch, as far as the destination does
// not decide).
type Inspection struct {
	// TLS and HTTP are what is looked for (the listener filters tls_inspector and http_inspector).
	TLS, HTTP bool
	Chains    []Chain
	// Timeout is how long a client may take to show what it is, from its connection on; 0 is without end (Listener.listener_filters_timeout). Then
	// the connection is closed, or with Continue served as plain text of no protocol (continue_on_listener_filters_timeout).
	Timeout  time.Duration
	Continue bool
	// Otherwise serves what no chain matches (default_filter_chain); nil: such connections are closed.
	Otherwise *Chain
}

// Chain is a filter chain.
type Chain struct {
	// ServerNames in lower case, ".suffix" for those below; Protocols are application_protocols. Empty lists match all.
	ServerNames, Protocols []string
	// Transport is "tls" or "raw_buffer"; empty matches both.
	Transport string
	// TCP is what serves its connections; nil: the listener's Routes.
	TCP *TCPProxy
}

// The transport protocols.
const (
	TransportTLS = "tls"
	TransportRaw = "raw_buffer"
)

// The application protocols of plain text.
const (
	ProtocolHTTP10 = "http/1.0"
	ProtocolHTTP11 = "http/1.1"
	ProtocolHTTP2  = "h2c"
)

// Opening is what the first bytes of a connection say.
type Opening struct {
	TLS bool
	// ServerName in lower case, and what the client speaks, in its order: of a TLS connection as its client says, of others one of the
	// application protocols above, or none.
	ServerName string
	Protocols  []string
}

// HTTP2 reports whether the client speaks HTTP/2 in plain text without having asked.
func (o *Opening) HTTP2() bool { return !o.TLS && slices.Contains(o.Protocols, ProtocolHTTP2) }

// ChainFor returns the chain of a connection, or nil. As in Envoy each step takes the closest that there is, and none is taken back when a later
// one finds nothing.
func (i *Inspection) ChainFor(o *Opening) *Chain {
	transport := TransportRaw
	if o.TLS {
		transport = TransportTLS
	}
	left := make([]*Chain, len(i.Chains))
	for at := range i.Chains {
		left[at] = &i.Chains[at]
	}
	left = closest(left, serverNames(o.ServerName), func(c *Chain) []string { return c.ServerNames })
	left = closest(left, []string{transport}, func(c *Chain) []string { return nonEmpty(c.Transport) })
	left = closest(left, o.Protocols, func(c *Chain) []string { return c.Protocols })
	if len(left) == 0 {
		return i.Otherwise
	}
	return left[0]
}

// Serves returns what serves a connection: a TCP proxy, or with http the listener's routes, or nothing. HTTP/2 that is for the routes goes to the
// TCP proxy behind them, if there is one: XLB has no routes for it.
func (i *Inspection) Serves(o *Opening) (p *TCPProxy, http bool) {
	c := i.ChainFor(o)
	switch {
	case c == nil:
		return nil, false
	case c.TCP != nil:
		return c.TCP, false
	case o.HTTP2() && i.Otherwise != nil && i.Otherwise.TCP != nil:
		return i.Otherwise.TCP, false
	}
	return nil, true
}

// closest leaves the chains that name the first of the wanted values that any names; without one, those that name none.
func closest(chains []*Chain, wanted []string, named func(*Chain) []string) []*Chain {
	for _, value := range wanted {
		if value == "" {
			continue
		}
		if found := filtered(chains, func(c *Chain) bool { return slices.Contains(named(c), value) }); len(found) > 0 {
			return found
		}
	}
	return filtered(chains, func(c *Chain) bool { return len(named(c)) == 0 })
}

func filtered(chains []*Chain, keep func(*Chain) bool) []*Chain {
	var out []*Chain
	for _, c := range chains {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// serverNames are a name and the suffixes that stand for it, the longest first.
func serverNames(name string) []string {
	if name == "" {
		return nil
	}
	list := []string{name}
	for at := 1; at < len(name); at++ {
		if name[at] == '.' && at < len(name)-1 {
			list = append(list, name[at:])
		}
	}
	return list
}

// SuffixOf turns the form of a configuration, "*.example.com", into the one of ServerNames.
func SuffixOf(name string) string { return strings.TrimPrefix(ascii.Lower(name), "*") }
