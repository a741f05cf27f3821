// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// Mirror sends copies of a route's requests to another cluster, whose answers nobody reads
// (envoy.config.route.v3.RouteAction.RequestMirrorPolicy).
type Mirror struct {
	// Cluster, or the header that names it, in lower case.
	Cluster, Header string
	// Share of the requests.
	Share Fraction
	// Host of the copies; empty is that of the request, with "-shadow" unless KeepHost.
	Host     string
	KeepHost bool
}

// HostOf is the host of a copy. An IPv6 address has no name that could be told from it, and stays.
func (m *Mirror) HostOf(authority string) string {
	switch {
	case m.Host != "":
		return m.Host
	case m.KeepHost || authority == "" || authority[0] == '[':
		return authority
	}
	port := len(authority)
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 {
		port = colon
	}
	return authority[:port] + "-shadow" + authority[port:]
}
