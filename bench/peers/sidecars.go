// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/cases"
)

// DensitySidecar is the Envoy of the i-th service.
func DensitySidecar(i int) Process {
	return Process{
		Name: fmt.Sprintf("sidecar%d", i), Tool: "envoy", Template: "envoy.yaml.tmpl", Args: EnvoyArgs,
		settings: func(s Site) settings {
			return settings{Admin: netip.AddrPortFrom(AdminAddress.Addr(), uint16(MeshAdmin+i)), Listeners: s.Listeners[i : i+1]}
		},
	}
}

// NeighbourSidecars are two Envoys, of the watched clients and of the others.
func (p Peer) NeighbourSidecars() Peer {
	p.Serves = nil
	p.Processes = []Process{DensitySidecar(0), DensitySidecar(1)}
	return p
}

// Sidecars is of the least case only.
const Sidecars = "envoy-sidecars"

// sidecarsAdmin is the port of the first client's sidecar's admin API; the next ones follow.
const sidecarsAdmin = 9910

// sidecarOfClient is where the i-th client's sidecar listens, the first at the service address.
func sidecarOfClient(i int) netip.AddrPort {
	return netip.AddrPortFrom(ServiceAddress.Addr(), ServiceAddress.Port()+uint16(i))
}

// sidecarProcess is an Envoy with one worker, of one client.
func sidecarProcess(i int) Process {
	return Process{
		Name: fmt.Sprintf("sidecar%d", i), Tool: "envoy", Template: "envoy.yaml.tmpl",
		Args: func(_ Site, file string) []string {
			return []string{"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"}
		},
		settings: func(s Site) settings {
			out := service(s)
			out.Admin = netip.AddrPortFrom(AdminAddress.Addr(), uint16(sidecarsAdmin+i))
			out.Listeners[0].Address = sidecarOfClient(i)
			return out
		},
	}
}

func sidecars() Peer {
	p := Peer{Name: Sidecars, about: "an Envoy for each client process"}
	for i := range cases.LeastClients {
		p.Processes = append(p.Processes, sidecarProcess(i))
		p.Serves = append(p.Serves, sidecarOfClient(i))
	}
	return p
}
