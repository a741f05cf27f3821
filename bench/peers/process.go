// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
)

// Process is one program of a balancer.
type Process struct {
	Name string
	// Tool is looked up by tools.Find.
	Tool string
	// Template of its configuration file; empty when it has none.
	Template string
	Host     lab.Host
	// Args for a configuration at file.
	Args func(s Site, file string) []string
	// settings that the template gets.
	settings func(s Site) settings
}

// Site is what peers are placed into.
type Site struct {
	Dir       string
	Workload  string
	Endpoints []netip.AddrPort
	// WebSocket: the endpoints return messages, and balancers have to let
	// clients switch to it.
	WebSocket bool
	// Routes of the service; none stands for one that takes everything.
	Routes []cases.Route
	// Scan: LEAST_REQUEST looks at all endpoints.
	Scan bool
	// Listeners stand for the one of the service, and Front for the endpoints that direct connections go to; none in most cases.
	Listeners []Listener
	Front     []netip.AddrPort
	// unrelated services are on the service's listener, and Clusters are theirs.
	Unrelated []Unrelated
	Clusters  []Listener
}

// settings of a configuration template.
type settings struct {
	Name      string
	Dir       string
	Workers   int
	Admin     netip.AddrPort
	Listeners []Listener
	// WebSocket allows clients to switch to it.
	WebSocket bool
	// Routes stand before the one that takes everything.
	Routes []cases.Route
	// Scan has LEAST_REQUEST look at all endpoints.
	Scan bool
	// unrelated services stand beside all others, and their Clusters.
	Unrelated []Unrelated
	Clusters  []Listener
	// Captures are where connections arrive that the kernel has redirected; the listeners then get those that were for their addresses.
	Captures []netip.AddrPort
}

// Listener is an address and the endpoints its requests are balanced over.
type Listener struct {
	Name      string
	Address   netip.AddrPort
	Endpoints []netip.AddrPort
	// Mark of connections to its endpoints; a listener with one does not listen itself: see settings.Captures. 0: none.
	Mark int
}
