// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"
)

// Addresses of the changes case. Each server listens at one port of every address, so that all endpoints are theirs.
var (
	ControlAddress = netip.MustParseAddrPort("127.0.0.1:18000")
	ReportAddress  = netip.MustParseAddrPort("127.0.0.1:18001")
	FirstChanged   = netip.MustParseAddrPort("127.90.0.1:9060")
	OtherChanged   = netip.MustParseAddrPort("127.95.0.1:9061")
)

// changesSettings name the control plane.
func changesSettings(Site) settings {
	return settings{Admin: AdminAddress, Clusters: []Listener{{Name: "control", Endpoints: []netip.AddrPort{ControlAddress}}}}
}

// UnderControl is the peer with a control plane's configuration.
func (p Peer) UnderControl() Peer {
	driven := make([]Process, len(p.Processes))
	for i, one := range p.Processes {
		one.Template, one.settings = "changes.yaml.tmpl", changesSettings
		driven[i] = one
	}
	p.Processes = driven
	return p
}
