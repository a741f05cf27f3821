// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"

	"github.com/xlb-project/xlb/bench/lab"
)

// Names of peers that results and targets refer to.
const (
	Direct = "direct"
	Spread = "spread"
	XLB    = "xlb"
	Envoy  = "envoy"
	Envoy2 = "envoy2"
)

// Addresses inside the lab. All balancers serve the same one, in their turn.
var (
	ServiceAddress = netip.MustParseAddrPort("127.80.0.1:8080")
	AdminAddress   = netip.MustParseAddrPort("127.0.0.1:9901")
)

// Ports on the endpoints' host.
const (
	endpointPort = 9001 // of the first endpoint; the next ones follow
	SidecarAdmin = 9902
)

// Peer is one way from the client to the endpoints.
type Peer struct {
	Name, about string
	// Processes make up the balancer, in the order they start; none for direct.
	Processes []Process
	// Settled is the URL that answers 200 when XLB is ready; the others are
	// ready when the service answers.
	Settled string
	// needs are tools that are no process of it.
	needs []string
	// Redirects is what the hosts redirect to its processes; nil for nothing.
	Redirects func(s Site) Mesh
	// Serves are where clients connect to, in turns; none stands for the service address.
	Serves []netip.AddrPort
}

// All lists all peers in the order of their turns.
func All() []Peer {
	return append([]Peer{
		{Name: Direct, about: "clients connect to the endpoints themselves"},
		{
			Name: Spread, about: "direct connections that connect() spreads over the endpoints",
			Settled:   xlbSettled,
			Processes: []Process{{Name: "xlb", Tool: "xlb", Template: "spread.yaml.tmpl", settings: service, Args: xlbArgs}},
		},
		{
			Name: XLB, about: "XLB",
			Settled:   xlbSettled,
			Processes: []Process{{Name: "xlb", Tool: "xlb", Template: "envoy.yaml.tmpl", settings: service, Args: xlbArgs}},
		},
		{
			Name: "nginx", about: "nginx as the balancer",
			Processes: []Process{{
				Name: "nginx", Tool: "nginx", Template: "nginx.conf.tmpl", settings: service, Args: nginxArgs,
			}},
		},
		{
			Name: "haproxy", about: "HAProxy as the balancer",
			Processes: []Process{{
				Name: "haproxy", Tool: "haproxy", Template: "haproxy.cfg.tmpl", settings: service,
				Args: func(_ Site, file string) []string { return []string{"-db", "-f", file} },
			}},
		},
		{
			Name: Envoy, about: "Envoy, one hop",
			Processes: []Process{{
				Name: "envoy", Tool: "envoy", Template: "envoy.yaml.tmpl", settings: service, Args: EnvoyArgs,
			}},
		},
		{
			Name: Envoy2, about: "Envoy, two hops: a sidecar on each side, redirected to by nftables",
			needs:     []string{"nft"},
			Redirects: Site.mesh,
			Processes: []Process{
				{
					Name: "envoy-server", Tool: "envoy", Template: "envoy.yaml.tmpl", Host: lab.ServerHost,
					settings: serverSidecar, Args: EnvoyArgs,
				},
				{
					Name: "envoy-client", Tool: "envoy", Template: "envoy.yaml.tmpl",
					settings: clientSidecar, Args: EnvoyArgs,
				},
			},
		},
		sidecars(),
	}, packetFilters()...)
}

// IsFilter reports whether a peer is rules of the packet filter alone.
func (p Peer) IsFilter() bool { return p.Name == Nft || p.Name == NftMap }

// Names are those of all peers, in the order of their turns.
func Names() []string {
	known := All()
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.Name
	}
	return names
}

// xlbSettled answers 200 when XLB is ready.
var xlbSettled = "http://" + AdminAddress.String() + "/ready"

func xlbArgs(s Site, file string) []string {
	return []string{"run", "--config", file, "--cgroup", s.Workload, "--admin", AdminAddress.String()}
}

func nginxArgs(s Site, file string) []string {
	return []string{"-p", s.Dir, "-c", file, "-e", "stderr"}
}

// EnvoyArgs give each Envoy its own shared memory, so that several run on one host.
func EnvoyArgs(_ Site, file string) []string {
	return []string{"-c", file, "--concurrency", "2", "--use-dynamic-base-id", "--log-level", "error"}
}

// service balances the service address over all endpoints.
func service(s Site) settings {
	listeners := s.Listeners
	if listeners == nil {
		listeners = []Listener{{Name: "service", Address: ServiceAddress, Endpoints: s.Endpoints}}
	}
	return settings{
		Admin:     AdminAddress,
		WebSocket: s.WebSocket,
		Routes:    s.Routes,
		Scan:      s.Scan,
		Listeners: listeners,
		Unrelated: s.Unrelated,
		Clusters:  s.Clusters,
	}
}
