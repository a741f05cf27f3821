// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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
	outboundPort = 15001
	inboundPort  = 15006
)

// Marks (SO_MARK) of a sidecar's own connections, which no rule may redirect to it again. Istio tells them by the user id 1337; the hosts of
// the lab have the sidecars of both sides, so that each side needs a mark of its own.
const (
	markOutbound = 1337
	markInbound  = 1338
)

const meshTable = "xlb-bench-mesh"

// redirect sends connections to an address to a sidecar instead, unless they have the mark.
type redirect struct {
	from, to netip.AddrPort
	unless   int
}

// redirection is what one host does with new connections at a hook of its network stack.
type redirection struct {
	host lab.Host
	hook string
	list []redirect
}

// mesh is what a peer redirects; the zero value stands for nothing.
type mesh struct {
	// outbound are addresses of services, inbound those of endpoints, each with where its sidecar listens.
	outbound, inbound []redirect
}

// twoSidecars are one for all clients and one for all endpoints.
func twoSidecars(services, endpoints []netip.AddrPort) (m mesh) {
	for _, service := range services {
		m.outbound = append(m.outbound, redirect{service, clientCapture, markOutbound})
	}
	for _, endpoint := range endpoints {
		m.inbound = append(m.inbound, redirect{endpoint, serverCapture(endpoint), markInbound})
	}
	return m
}

// clientCapture is where the client's sidecar takes what is redirected to it, serverCapture where that of an endpoint does.
var clientCapture = netip.AddrPortFrom(adminAddress.Addr(), outboundPort)

func serverCapture(endpoint netip.AddrPort) netip.AddrPort {
	if endpoint.Addr().IsLoopback() {
		return netip.AddrPortFrom(adminAddress.Addr(), inboundPort)
	}
	return netip.AddrPortFrom(endpoint.Addr(), inboundPort)
}

// redirections are by host. On one host all connections begin there; on two those to endpoints come in at the other one.
func (m mesh) redirections(oneHost bool) []redirection {
	if oneHost {
		return []redirection{{lab.ClientHost, "output", append(m.outbound[:len(m.outbound):len(m.outbound)], m.inbound...)}}
	}
	return []redirection{{lab.ClientHost, "output", m.outbound}, {lab.ServerHost, "prerouting", m.inbound}}
}

// text is the rules for nft. A rule counts the connections that it sends elsewhere: a nat chain sees the first packet of each.
func (r redirection) text() string {
	var rules strings.Builder
	for _, one := range r.list {
		fmt.Fprintf(&rules, "\t\tip daddr %s tcp dport %d meta mark != %d counter dnat to %s\n", one.from.Addr(), one.from.Port(), one.unless, one.to)
	}
	return fmt.Sprintf("table ip %s {\n\tchain %s {\n\t\ttype nat hook %s priority -100; policy accept;\n%s\t}\n}\n", meshTable, r.hook, r.hook, rules.String())
}

// redirect has the hosts of the lab do it until unredirect.
func (b *bed) redirect(ctx context.Context, m mesh) error {
	if len(m.inbound) == 0 {
		return nil
	}
	for _, r := range m.redirections(b.lab.EndpointAddress().IsLoopback()) {
		if err := b.nftOn(ctx, r.host, r.text()); err != nil {
			return err
		}
		b.redirected = append(b.redirected, r.host)
	}
	return nil
}

// unredirect takes the rules away. It comes after the sidecars have ended, so that the kernel has seen the ends of their connections.
func (b *bed) unredirect(ctx context.Context) error {
	var errs []error
	for _, host := range b.redirected {
		errs = append(errs, b.nftOn(context.WithoutCancel(ctx), host, "delete table ip "+meshTable+"\n"))
	}
	b.redirected = nil
	return errors.Join(errs...)
}

// mesh is what two sidecars redirect where the endpoints and their service are those of the bed.
func (s site) mesh() mesh { return twoSidecars([]netip.AddrPort{serviceAddress}, s.endpoints) }

// clientSidecar chooses the endpoint, as service does, of what is redirected to it.
func clientSidecar(s site) settings {
	out := service(s)
	out.Captures = []netip.AddrPort{clientCapture}
	for i := range out.Listeners {
		out.Listeners[i].Mark = markOutbound
	}
	return out
}

// serverSidecar stands before each endpoint and forwards to it alone. One
// process stands for the sidecars of all endpoints of the host.
func serverSidecar(s site) settings {
	out := settings{Admin: netip.AddrPortFrom(adminAddress.Addr(), sidecarAdmin), WebSocket: s.webSocket}
	if len(s.endpoints) > 0 {
		out.Captures = []netip.AddrPort{serverCapture(s.endpoints[0])}
	}
	for i, endpoint := range s.endpoints {
		out.Listeners = append(out.Listeners, listener{
			Name: endpointName(i), Address: endpoint, Endpoints: []netip.AddrPort{endpoint}, Mark: markInbound,
		})
	}
	return out
}

// Where the sidecar of the first service of a chain is; those of the others follow.
var firstSidecar = netip.MustParseAddr("127.82.0.1")

// meshAdmin is the port of the first service's sidecar's admin API; the next ones follow.
const meshAdmin = 9950

// sidecarAddresses are those of n services of a chain at one port.
func sidecarAddresses(port uint16, n int) []netip.AddrPort {
	return chain.Addresses(netip.AddrPortFrom(firstSidecar, port), n)
}

// meshSidecar is the Envoy of the i-th of n services: it takes what comes in for it, and what it asks the next one. It serves both sides.
func meshSidecar(i, n int) process {
	services, virtual := chain.Addresses(firstService, n), chain.Addresses(firstVirtual, n)
	return process{
		name: fmt.Sprintf("mesh%d", i), tool: "envoy", template: "envoy.yaml.tmpl", args: envoyArgs,
		settings: func(site) settings {
			out := settings{
				Admin:     netip.AddrPortFrom(adminAddress.Addr(), uint16(meshAdmin+i)),
				Captures:  []netip.AddrPort{sidecarAddresses(inboundPort, n)[i]},
				Listeners: []listener{{Name: "inbound", Address: services[i], Endpoints: services[i : i+1], Mark: markInbound}},
			}
			if i+1 < n {
				out.Captures = append(out.Captures, sidecarAddresses(outboundPort, n)[i])
				out.Listeners = append(out.Listeners, listener{
					Name: "outbound", Address: virtual[i+1], Endpoints: services[i+1 : i+2], Mark: markOutbound,
				})
			}
			return out
		},
	}
}

// meshed is the peer with a sidecar at the client and at each of n services. Who asks a service is its predecessor alone, so that its address
// leads to the predecessor's sidecar.
func (p peer) meshed(n int) peer {
	p.processes = nil
	services, virtual := chain.Addresses(firstService, n), chain.Addresses(firstVirtual, n)
	askers := append([]netip.AddrPort{clientCapture}, sidecarAddresses(outboundPort, n)...)
	var m mesh
	for i := range n {
		p.processes = append(p.processes, meshSidecar(i, n))
		m.outbound = append(m.outbound, redirect{virtual[i], askers[i], markOutbound})
		m.inbound = append(m.inbound, redirect{services[i], sidecarAddresses(inboundPort, n)[i], markInbound})
	}
	p.processes = append(p.processes, process{
		name: "mesh-client", tool: "envoy", template: "envoy.yaml.tmpl", args: envoyArgs,
		settings: func(site) settings {
			return settings{Admin: adminAddress, Captures: []netip.AddrPort{clientCapture}, Listeners: []listener{
				{Name: "outbound", Address: virtual[0], Endpoints: services[:1], Mark: markOutbound},
			}}
		},
	})
	p.redirects = func(site) mesh { return m }
	return p
}

// appMesh writes the configurations of two Envoys: one before each instance, and the application's own one, with what redirection asks for.
func (b *bed) appMesh() (server, client string, m mesh, err error) {
	endpoints := b.app.Endpoints()
	text, services, err := asSidecar(b.app.File())
	if err != nil {
		return "", "", m, err
	}
	before := process{name: "app-server", template: "envoy.yaml.tmpl", settings: func(s site) settings {
		s.endpoints = endpoints
		return serverSidecar(s)
	}}
	rendered, err := before.configuration(b.site)
	if err != nil {
		return "", "", m, err
	}
	server, client = b.site.file("app-server"), b.site.file("app-client")
	err = errors.Join(os.WriteFile(server, rendered, 0o644), os.WriteFile(client, text, 0o644))
	return server, client, twoSidecars(services, endpoints), err
}

// asSidecar is a configuration file whose listeners take redirected connections only, and whose clusters mark theirs; and the listeners'
// addresses.
func asSidecar(path string) (text []byte, services []netip.AddrPort, err error) {
	from, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	added, err := process{name: "app-client", template: "envoy.yaml.tmpl", settings: func(site) settings {
		return settings{Admin: adminAddress, Captures: []netip.AddrPort{clientCapture}, Listeners: []listener{
			{Name: "like", Address: serviceAddress, Endpoints: []netip.AddrPort{serviceAddress}, Mark: markOutbound},
		}}
	}}.configuration(site{})
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
