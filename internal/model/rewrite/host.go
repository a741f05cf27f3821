// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strconv"
	"strings"
)

// HostRule says what is cut off a request's host before it is matched and sent on
// (HttpConnectionManager.strip_any_host_port and its kin).
type HostRule struct {
	// AnyPort cuts every port off.
	AnyPort bool
	// Port is the one port that is cut off (strip_matching_host_port: that of the
	// listener); 0 is none.
	Port uint16
	// TrailingDot cuts a "." at the end of the name off, before the port.
	TrailingDot bool
}

// Apply returns the host as routes and endpoints see it.
func (h HostRule) Apply(authority string) string {
	if h.TrailingDot {
		authority = withoutTrailingDot(authority)
	}
	name := WithoutPort(authority)
	if name == authority || !h.AnyPort && h.Port == 0 {
		return authority
	}
	port, err := strconv.ParseUint(authority[len(name)+1:], 10, 32)
	if err != nil || !h.AnyPort && port != uint64(h.Port) {
		return authority
	}
	return name
}

// withoutTrailingDot cuts the last "." off if it ends the authority, or what
// precedes a ":".
func withoutTrailingDot(authority string) string {
	dot := strings.LastIndexByte(authority, '.')
	if dot < 0 {
		return authority
	}
	if rest := authority[dot+1:]; rest == "" || rest[0] == ':' {
		return authority[:dot] + rest
	}
	return authority
}

// WithoutPort cuts an authority at its last ":", unless that is part of an IPv6
// address. As in Envoy what follows it need not be a number.
func WithoutPort(authority string) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.LastIndexByte(authority, ']') > colon {
		return authority
	}
	return authority[:colon]
}
