// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/lab"
)

// Names of peers that results and targets refer to.
const (
	peerDirect = "direct"
	peerSpread = "spread"
	peerXLB    = "xlb"
	peerEnvoy  = "envoy"
	peerEnvoy2 = "envoy2"
)

// workers is the number of workers or threads of every balancer and the number
// of endpoints: the target machine has two processors.
const workers = 2

// Addresses inside the lab. All balancers serve the same one, in their turn.
var (
	serviceAddress = netip.MustParseAddrPort("127.80.0.1:8080")
	adminAddress   = netip.MustParseAddrPort("127.0.0.1:9901")
)

// Ports on the endpoints' host.
const (
	endpointPort = 9001 // of the first endpoint; the next ones follow
	sidecarAdmin = 9902
)

// peer is one way from the client to the endpoints.
type peer struct {
	name, about string
	// processes make up the balancer, in the order they start; none for direct.
	processes []process
	// settled is the URL that answers 200 when XLB is ready; the others are
	// ready when the service answers.
	settled string
	// needs are tools that are no process of it.
	needs []string
	// redirects is what the hosts redirect to its processes; nil for nothing.
	redirects func(s site) mesh
	// serves are where clients connect to, in turns; none stands for the service address.
	serves []netip.AddrPort
}

// process is one program of a balancer.
type process struct {
	name string
	// tool is looked up by tools.find.
	tool string
	// template of its configuration file; empty when it has none.
	template string
	host     lab.Host
	// args for a configuration at file.
	args func(s site, file string) []string
	// settings that the template gets.
	settings func(s site) settings
}

// site is what peers are placed into.
type site struct {
	dir       string
	workload  string
	endpoints []netip.AddrPort
	// webSocket: the endpoints return messages, and balancers have to let
	// clients switch to it.
	webSocket bool
	// routes of the service; none stands for one that takes everything.
	routes []route
	// scan: LEAST_REQUEST looks at all endpoints.
	scan bool
	// listeners stand for the one of the service, and front for the endpoints that direct connections go to; none in most cases.
	listeners []listener
	front     []netip.AddrPort
	// unrelated services are on the service's listener, and clusters are theirs.
	unrelated []unrelated
	clusters  []listener
}

// settings of a configuration template.
type settings struct {
	Name      string
	Dir       string
	Workers   int
	Admin     netip.AddrPort
	Listeners []listener
	// WebSocket allows clients to switch to it.
	WebSocket bool
	// Routes stand before the one that takes everything.
	Routes []route
	// Scan has LEAST_REQUEST look at all endpoints.
	Scan bool
	// Unrelated services stand beside all others, and their Clusters.
	Unrelated []unrelated
	Clusters  []listener
	// Captures are where connections arrive that the kernel has redirected; the listeners then get those that were for their addresses.
	Captures []netip.AddrPort
}

// listener is an address and the endpoints its requests are balanced over.
type listener struct {
	Name      string
	Address   netip.AddrPort
	Endpoints []netip.AddrPort
	// Mark of connections to its endpoints; a listener with one does not listen itself: see settings.Captures. 0: none.
	Mark int
}

// peers lists all peers in the order of their turns.
func peers() []peer {
	return append([]peer{
		{name: peerDirect, about: "clients connect to the endpoints themselves"},
		{
			name: peerSpread, about: "direct connections that connect() spreads over the endpoints",
			settled:   xlbSettled,
			processes: []process{{name: "xlb", tool: "xlb", template: "spread.yaml.tmpl", settings: service, args: xlbArgs}},
		},
		{
			name: peerXLB, about: "XLB",
			settled:   xlbSettled,
			processes: []process{{name: "xlb", tool: "xlb", template: "envoy.yaml.tmpl", settings: service, args: xlbArgs}},
		},
		{
			name: "nginx", about: "nginx as the balancer",
			processes: []process{{
				name: "nginx", tool: "nginx", template: "nginx.conf.tmpl", settings: service, args: nginxArgs,
			}},
		},
		{
			name: "haproxy", about: "HAProxy as the balancer",
			processes: []process{{
				name: "haproxy", tool: "haproxy", template: "haproxy.cfg.tmpl", settings: service,
				args: func(_ site, file string) []string { return []string{"-db", "-f", file} },
			}},
		},
		{
			name: peerEnvoy, about: "Envoy, one hop",
			processes: []process{{
				name: "envoy", tool: "envoy", template: "envoy.yaml.tmpl", settings: service, args: envoyArgs,
			}},
		},
		{
			name: peerEnvoy2, about: "Envoy, two hops: a sidecar on each side, redirected to by nftables",
			needs:     []string{"nft"},
			redirects: site.mesh,
			processes: []process{
				{
					name: "envoy-server", tool: "envoy", template: "envoy.yaml.tmpl", host: lab.ServerHost,
					settings: serverSidecar, args: envoyArgs,
				},
				{
					name: "envoy-client", tool: "envoy", template: "envoy.yaml.tmpl",
					settings: clientSidecar, args: envoyArgs,
				},
			},
		},
		sidecars(),
	}, packetFilters()...)
}

// isFilter reports whether a peer is rules of the packet filter alone.
func (p peer) isFilter() bool { return p.name == peerNft || p.name == peerNftMap }

func peerNames() []string {
	known := peers()
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return names
}

// xlbSettled answers 200 when XLB is ready.
var xlbSettled = "http://" + adminAddress.String() + "/ready"

func xlbArgs(s site, file string) []string {
	return []string{"run", "--config", file, "--cgroup", s.workload, "--admin", adminAddress.String()}
}

func nginxArgs(s site, file string) []string {
	return []string{"-p", s.dir, "-c", file, "-e", "stderr"}
}

// envoyArgs give each Envoy its own shared memory, so that several run on one host.
func envoyArgs(_ site, file string) []string {
	return []string{"-c", file, "--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error"}
}

// service balances the service address over all endpoints.
func service(s site) settings {
	listeners := s.listeners
	if listeners == nil {
		listeners = []listener{{Name: "service", Address: serviceAddress, Endpoints: s.endpoints}}
	}
	return settings{
		Admin:     adminAddress,
		WebSocket: s.webSocket,
		Routes:    s.routes,
		Scan:      s.scan,
		Listeners: listeners,
		Unrelated: s.unrelated,
		Clusters:  s.clusters,
	}
}

func endpointName(i int) string { return fmt.Sprintf("endpoint%d", i) }

// endpointProcess is the i-th nginx that answers.
func endpointProcess(i int) process {
	name := endpointName(i)
	return process{
		name: name, tool: "nginx", template: "endpoint.conf.tmpl", host: lab.ServerHost, args: nginxArgs,
		settings: func(s site) settings {
			return settings{Listeners: []listener{{Name: name, Address: s.endpoints[i]}}}
		},
	}
}

// echoProcess is the i-th server that returns messages.
func echoProcess(i int) process {
	return process{
		name: endpointName(i), tool: toolSelf, host: lab.ServerHost,
		args: func(s site, _ string) []string { return []string{"echo", "--listen", s.endpoints[i].String()} },
	}
}

// endpointAddresses lists where so many endpoints listen on the host at addr.
func endpointAddresses(addr netip.Addr, n int) []netip.AddrPort {
	addresses := make([]netip.AddrPort, n)
	for i := range addresses {
		addresses[i] = netip.AddrPortFrom(addr, uint16(endpointPort+i))
	}
	return addresses
}
