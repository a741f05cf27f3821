// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
)

// The ports of a sidecar, as Istio has them: what its application sends is redirected to the one, what comes for its application to the other.
const (
	OutboundPort = 15001
	InboundPort  = 15006
)

// Marks (SO_MARK) of a sidecar's own connections, which no rule may redirect to it again. Istio tells them by the user id 1337; the hosts of
// the lab have the sidecars of both sides, so that each side needs a mark of its own.
const (
	markOutbound = 1337
	markInbound  = 1338
)

// MeshTable is the table of nftables that redirects to sidecars.
const MeshTable = "xlb-bench-mesh"

// Redirect sends connections to an address to a sidecar instead, unless they have the mark.
type Redirect struct {
	From, To netip.AddrPort
	Unless   int
}

// Redirection is what one host does with new connections at a hook of its network stack.
type Redirection struct {
	Host lab.Host
	hook string
	list []Redirect
}

// Mesh is what a peer redirects; the zero value stands for nothing.
type Mesh struct {
	// Outbound are addresses of services, Inbound those of endpoints, each with where its sidecar listens.
	Outbound, Inbound []Redirect
}

// twoSidecars are one for all clients and one for all endpoints.
func twoSidecars(services, endpoints []netip.AddrPort) (m Mesh) {
	for _, service := range services {
		m.Outbound = append(m.Outbound, Redirect{service, clientCapture, markOutbound})
	}
	for _, endpoint := range endpoints {
		m.Inbound = append(m.Inbound, Redirect{endpoint, serverCapture(endpoint), markInbound})
	}
	return m
}

// clientCapture is where the client's sidecar takes what is redirected to it, serverCapture where that of an endpoint does.
var clientCapture = netip.AddrPortFrom(AdminAddress.Addr(), OutboundPort)

func serverCapture(endpoint netip.AddrPort) netip.AddrPort {
	if endpoint.Addr().IsLoopback() {
		return netip.AddrPortFrom(AdminAddress.Addr(), InboundPort)
	}
	return netip.AddrPortFrom(endpoint.Addr(), InboundPort)
}

// Redirections are by host. On one host all connections begin there; on two those to endpoints come in at the other one.
func (m Mesh) Redirections(oneHost bool) []Redirection {
	if oneHost {
		return []Redirection{{lab.ClientHost, "output", append(m.Outbound[:len(m.Outbound):len(m.Outbound)], m.Inbound...)}}
	}
	return []Redirection{{lab.ClientHost, "output", m.Outbound}, {lab.ServerHost, "prerouting", m.Inbound}}
}

// Text is the rules for nft. A rule counts the connections that it sends elsewhere: a nat chain sees the first packet of each.
func (r Redirection) Text() string {
	var rules strings.Builder
	for _, one := range r.list {
		fmt.Fprintf(&rules, "\t\tip daddr %s tcp dport %d meta mark != %d counter dnat to %s\n", one.From.Addr(), one.From.Port(), one.Unless, one.To)
	}
	return fmt.Sprintf("table ip %s {\n\tchain %s {\n\t\ttype nat hook %s priority -100; policy accept;\n%s\t}\n}\n", MeshTable, r.hook, r.hook, rules.String())
}

// mesh is what two sidecars redirect where the endpoints and their service are those of the bed.
func (s Site) mesh() Mesh { return twoSidecars([]netip.AddrPort{ServiceAddress}, s.Endpoints) }

// clientSidecar chooses the endpoint, as service does, of what is redirected to it.
func clientSidecar(s Site) settings {
	out := service(s)
	out.Captures = []netip.AddrPort{clientCapture}
	for i := range out.Listeners {
		out.Listeners[i].Mark = markOutbound
	}
	return out
}

// serverSidecar stands before each endpoint and forwards to it alone. One
// process stands for the sidecars of all endpoints of the host.
func serverSidecar(s Site) settings {
	out := settings{Admin: netip.AddrPortFrom(AdminAddress.Addr(), SidecarAdmin), WebSocket: s.WebSocket}
	if len(s.Endpoints) > 0 {
		out.Captures = []netip.AddrPort{serverCapture(s.Endpoints[0])}
	}
	for i, endpoint := range s.Endpoints {
		out.Listeners = append(out.Listeners, Listener{
			Name: EndpointName(i), Address: endpoint, Endpoints: []netip.AddrPort{endpoint}, Mark: markInbound,
		})
	}
	return out
}

// Where the sidecar of the first service of a chain is; those of the others follow.
var firstSidecar = netip.MustParseAddr("127.82.0.1")

// MeshAdmin is the port of the first service's sidecar's admin API; the next ones follow.
const MeshAdmin = 9950

// sidecarAddresses are those of n services of a chain at one port.
func sidecarAddresses(port uint16, n int) []netip.AddrPort {
	return chain.Addresses(netip.AddrPortFrom(firstSidecar, port), n)
}

// meshSidecar is the Envoy of the i-th of n services: it takes what comes in for it, and what it asks the next one. It serves both sides.
func meshSidecar(i, n int) Process {
	services, virtual := chain.Addresses(FirstService, n), chain.Addresses(FirstVirtual, n)
	return Process{
		Name: fmt.Sprintf("mesh%d", i), Tool: "envoy", Template: "envoy.yaml.tmpl", Args: EnvoyArgs,
		settings: func(Site) settings {
			out := settings{
				Admin:     netip.AddrPortFrom(AdminAddress.Addr(), uint16(MeshAdmin+i)),
				Captures:  []netip.AddrPort{sidecarAddresses(InboundPort, n)[i]},
				Listeners: []Listener{{Name: "inbound", Address: services[i], Endpoints: services[i : i+1], Mark: markInbound}},
			}
			if i+1 < n {
				out.Captures = append(out.Captures, sidecarAddresses(OutboundPort, n)[i])
				out.Listeners = append(out.Listeners, Listener{
					Name: "outbound", Address: virtual[i+1], Endpoints: services[i+1 : i+2], Mark: markOutbound,
				})
			}
			return out
		},
	}
}

// Meshed is the peer with a sidecar at the client and at each of n services. Who asks a service is its predecessor alone, so that its address
// leads to the predecessor's sidecar.
func (p Peer) Meshed(n int) Peer {
	p.Processes = nil
	services, virtual := chain.Addresses(FirstService, n), chain.Addresses(FirstVirtual, n)
	askers := append([]netip.AddrPort{clientCapture}, sidecarAddresses(OutboundPort, n)...)
	var m Mesh
	for i := range n {
		p.Processes = append(p.Processes, meshSidecar(i, n))
		m.Outbound = append(m.Outbound, Redirect{virtual[i], askers[i], markOutbound})
		m.Inbound = append(m.Inbound, Redirect{services[i], sidecarAddresses(InboundPort, n)[i], markInbound})
	}
	p.Processes = append(p.Processes, Process{
		Name: "mesh-client", Tool: "envoy", Template: "envoy.yaml.tmpl", Args: EnvoyArgs,
		settings: func(Site) settings {
			return settings{Admin: AdminAddress, Captures: []netip.AddrPort{clientCapture}, Listeners: []Listener{
				{Name: "outbound", Address: virtual[0], Endpoints: services[:1], Mark: markOutbound},
			}}
		},
	})
	p.Redirects = func(Site) Mesh { return m }
	return p
}

// AppSidecars are the configurations of two Envoys: one before each endpoint of an application, and the application's own one at file, with
// what redirection asks for.
func AppSidecars(s Site, file string, endpoints []netip.AddrPort) (server, client []byte, m Mesh, err error) {
	client, services, err := asSidecar(file)
	if err != nil {
		return nil, nil, m, err
	}
	server, err = Process{Name: "app-server", Template: "envoy.yaml.tmpl", settings: func(s Site) settings {
		s.Endpoints = endpoints
		return serverSidecar(s)
	}}.Configuration(s)
	return server, client, twoSidecars(services, endpoints), err
}

// asSidecar is a configuration file whose listeners take redirected connections only, and whose clusters mark theirs; and the listeners'
// addresses.
func asSidecar(path string) (text []byte, services []netip.AddrPort, err error) {
	from, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	added, err := Process{Name: "app-client", Template: "envoy.yaml.tmpl", settings: func(Site) settings {
		return settings{Admin: AdminAddress, Captures: []netip.AddrPort{clientCapture}, Listeners: []Listener{
			{Name: "like", Address: ServiceAddress, Endpoints: []netip.AddrPort{ServiceAddress}, Mark: markOutbound},
		}}
	}}.Configuration(Site{})
	if err != nil {
		return nil, nil, err
	}
	var file, like bootstrap
	if err := errors.Join(yaml.Unmarshal(from, &file), yaml.Unmarshal(added, &like)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, l := range file.Static.Listeners {
		address, err := addressOf(l)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		services = append(services, address)
		l["bind_to_port"] = false
	}
	for _, c := range file.Static.Clusters {
		c["upstream_bind_config"] = like.Static.Clusters[0]["upstream_bind_config"]
	}
	file.Static.Listeners = append(file.Static.Listeners, like.Static.Listeners[0])
	text, err = json.Marshal(file) // YAML, too.
	return text, services, err
}

// bootstrap is an Envoy configuration as far as it is changed here.
type bootstrap struct {
	Admin  any `json:"admin"`
	Static struct {
		Listeners []map[string]any `json:"listeners"`
		Clusters  []map[string]any `json:"clusters"`
	} `json:"static_resources"`
}

// addressOf is where a listener listens.
func addressOf(l map[string]any) (netip.AddrPort, error) {
	text, err := json.Marshal(l["address"])
	if err != nil {
		return netip.AddrPort{}, err
	}
	var address struct {
		Socket struct {
			Address netip.Addr `json:"address"`
			Port    uint16     `json:"port_value"`
		} `json:"socket_address"`
	}
	if err := json.Unmarshal(text, &address); err != nil {
		return netip.AddrPort{}, fmt.Errorf("address of a listener: %w", err)
	}
	return netip.AddrPortFrom(address.Socket.Address, address.Socket.Port), nil
}
