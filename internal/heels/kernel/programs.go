// SPDX-License-Identifier: Apache-2.0

package kernel

import "github.com/cilium/ebpf"

// MapControl is the name of the map whose one entry steers the programs.
const MapControl = kernelMapHeelsControl

// Maps are those of the kernel side.
type Maps = kernelMaps

// LoadSpec reads programs and maps of the kernel side, which are part of this binary.
func LoadSpec() (*ebpf.CollectionSpec, error) { return loadKernel() }

// Hooks are the programs of both roles.
type Hooks struct {
	ClientEgress  *ebpf.Program `ebpf:"heels_client_egress"`
	ClientIngress *ebpf.Program `ebpf:"heels_client_ingress"`
	ClientSockops *ebpf.Program `ebpf:"heels_client_sockops"`
	ServerEgress  *ebpf.Program `ebpf:"heels_server_egress"`
	ServerIngress *ebpf.Program `ebpf:"heels_server_ingress"`
	ServerSockops *ebpf.Program `ebpf:"heels_server_sockops"`
	ClientFinish  *ebpf.Program `ebpf:"heels_client_finish"`
	ServerFinish  *ebpf.Program `ebpf:"heels_server_finish"`
	ServerPeer4   *ebpf.Program `ebpf:"heels_server_peername4"`
	ServerPeer6   *ebpf.Program `ebpf:"heels_server_peername6"`
}

// ByName are the programs, by their names without the prefix that all have.
func (h *Hooks) ByName() map[string]*ebpf.Program {
	return map[string]*ebpf.Program{
		"client_egress": h.ClientEgress, "client_ingress": h.ClientIngress, "client_sockops": h.ClientSockops,
		"server_egress": h.ServerEgress, "server_ingress": h.ServerIngress, "server_sockops": h.ServerSockops,
		"client_finish": h.ClientFinish, "server_finish": h.ServerFinish,
		"server_peername4": h.ServerPeer4, "server_peername6": h.ServerPeer6,
	}
}

// Iterators look at sockets.
type Iterators struct {
	// Connections runs over a map of flows; nil where the kernel forbids that: OfClient and OfServer are in its place, which are nil otherwise.
	Connections, OfClient, OfServer *ebpf.Program
	Listening, HalfOpen             *ebpf.Program
}

// ByName are the programs, by their names in the kernel side.
func (it *Iterators) ByName() map[string]**ebpf.Program {
	return map[string]**ebpf.Program{
		kernelProgHeelsConnections: &it.Connections, kernelProgHeelsConnectionsClient: &it.OfClient, kernelProgHeelsConnectionsServer: &it.OfServer,
		kernelProgHeelsListening: &it.Listening, kernelProgHeelsHalfOpen: &it.HalfOpen,
	}
}
