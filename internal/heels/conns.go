// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
)

// Role is a side of a connection.
type Role string

// The two sides.
const (
	ClientRole Role = "client"
	ServerRole Role = "server"
)

// State is what HEELS does with a connection.
type State string

// The states: its SYN carries the option; it goes around the balancer; its SYN-ACK came without an answer, or it has returned to the balancer; it is in
// confirm mode, and nothing has gone directly yet.
const (
	Offered  State = "offered"
	Direct   State = "direct"
	Fallback State = "fallback"
	Waiting  State = "waiting"
)

var stateNames = map[uint32]State{
	kernel.FlowOffered:  Offered,
	kernel.FlowDirect:   Direct,
	kernel.FlowFallback: Fallback,
	kernel.FlowWaiting:  Waiting,
}

// tcpNames are the kernel's names of TCP states, by number.
var tcpNames = [...]string{
	"", "established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait", "close", "close_wait", "last_ack", "listen", "closing", "new_syn_recv",
}

// Connection is a live connection that HEELS has a part in.
type Connection struct {
	Role Role `json:"role"`
	// Local and Remote are as the socket has them.
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	VIP    netip.AddrPort `json:"vip"`
	// Server is the server's own address; not valid while it is not known.
	Server netip.AddrPort `json:"server"`
	State  State          `json:"state"`
	TCP    string         `json:"tcp"`
	// Sent and Received are bytes of payload: acknowledged by the other end, and received from it.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
	// foreign: its socket is of a cgroup that an agent before has served.
	foreign bool
}

// connSize is that of struct heels_conn, in bytes.
var connSize = binary.Size(kernel.Conn{})

// Connections lists the live connections. It asks the kernel for the sockets themselves: nothing has to be kept. A kernel that lets no iterator run over a map
// answers in the agent's network namespace alone: elsewhere the error is a *pins.Error that says so.
func (k *Kernel) Connections() ([]Connection, error) {
	list := []Connection{}
	for _, of := range []struct {
		role    Role
		flows   *ebpf.Map
		sockets *ebpf.Program
	}{{ClientRole, k.maps.HeelsClientFlows, k.iterators.OfClient}, {ServerRole, k.maps.HeelsServerFlows, k.iterators.OfServer}} {
		data, err := k.listOf(of.flows, of.sockets)
		if err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
		for ; len(data) >= connSize; data = data[connSize:] {
			var c kernel.Conn
			if _, err := binary.Decode(data, binary.NativeEndian, &c); err != nil {
				return nil, fmt.Errorf("list connections: %w", err)
			}
			list = append(list, connectionOf(of.role, &c))
		}
	}
	return list, nil
}

func connectionOf(r Role, c *kernel.Conn) Connection {
	out := Connection{
		Role: r, Local: kernel.AddrPort(c.Local), Remote: kernel.AddrPort(c.Remote), VIP: kernel.AddrPort(c.Vip), State: stateNames[c.State],
		Sent: c.Sent, Received: c.Received, foreign: c.Foreign != 0,
	}
	if c.Peer.Port != 0 {
		out.Server = kernel.AddrPort(c.Peer)
	}
	if int(c.TcpState) < len(tcpNames) {
		out.TCP = tcpNames[c.TcpState]
	}
	return out
}

// listOf returns what the kernel has written about the connections of one role: of a map of flows, or of the sockets of the namespace.
func (k *Kernel) listOf(flows *ebpf.Map, sockets *ebpf.Program) (data []byte, err error) {
	if k.iterators.Connections != nil {
		return iterate(k.iterators.Connections, flows)
	}
	own, err := k.home.Cookie()
	if err != nil {
		return nil, err
	}
	device, err := k.attachedElsewhere(own)
	if err != nil {
		return nil, err
	}
	if device != "" {
		return nil, &pins.Error{Path: k.pin, Err: fmt.Errorf("programs are in force at %s of another network namespace, and this kernel shows connections of one's own alone; run this in that namespace: nsenter --net", device)}
	}
	err = k.home.Within(func() error {
		data, err = iterate(sockets, nil)
		return err
	})
	return data, err
}

// iterate runs an iterator to its end, over a map if one is given, and returns what it has written.
func iterate(program *ebpf.Program, over *ebpf.Map) ([]byte, error) {
	it, err := link.AttachIter(link.IterOptions{Program: program, Map: over})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// readyListeners makes listeners that are older than the agent keep SYNs. They must be in the network namespace of the calling thread.
func (k *Kernel) readyListeners() error {
	if _, err := iterate(k.iterators.Listening, nil); err != nil {
		return fmt.Errorf("prepare listeners: %w", err)
	}
	return nil
}
