// SPDX-License-Identifier: Apache-2.0

// Package balancer is a layer-4 balancer that encapsulates, for tests: it stands
// for Katran and GLB. An XDP program sends what arrives for a service out again
// on the same link, to one of the service's servers that are up, chosen by a
// Maglev table; packet-too-big messages about a server's replies go to the same
// server. It keeps no state of connections.
package balancer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/hashing"
)

// ringSize is the number of places of a service, as in the program.
const ringSize = 4099

// Encapsulation is how packets travel to servers.
type Encapsulation = programsEncapsulation

// The encapsulations. The outer family is that of the server's address.
const (
	IPIP Encapsulation = programsEncapsulationIPIP
	// GUEDirect is variant 1 at UDP port 6080, as Katran sends it.
	GUEDirect Encapsulation = programsEncapsulationGUE_DIRECT
	// GUEPrivate is variant 0 with private data at UDP port 19523, as GLB sends it.
	GUEPrivate Encapsulation = programsEncapsulationGUE_GLB
)

// Service is a VIP and its servers.
type Service struct {
	VIP           netip.AddrPort
	Encapsulation Encapsulation
	Servers       []Server
}

// Server of a service.
type Server struct {
	Address netip.Addr
	// Down servers get nothing, not even packets of connections that they have.
	Down bool
}

// Balancer is loaded, and perhaps attached.
type Balancer struct {
	programs programsObjects
	links    []link.Link
	// services and reals have their numbers in the program.
	services map[netip.AddrPort]uint32
	reals    map[netip.Addr]uint32
	// katran balances instead of our own program; nil: ours does.
	katran *katran
}

// New loads the programs.
func New() (*Balancer, error) {
	b := &Balancer{services: map[netip.AddrPort]uint32{}, reals: map[netip.Addr]uint32{}}
	if err := loadProgramsObjects(&b.programs, nil); err != nil {
		return nil, fmt.Errorf("load the balancer: %w", err)
	}
	return b, nil
}

// Attach balances what arrives at a link of the current namespace, in the driver. The other end of a veth pair needs AttachReceiver, and must
// fill in checksums itself.
func (b *Balancer) Attach(ifindex int) error {
	if b.katran != nil {
		return b.attach(b.katran.Programs[katranProgram], ifindex)
	}
	return b.attach(b.programs.Balance, ifindex)
}

// AttachReceiver has a link of the current namespace, the other end of the balancer's, take what the balancer sends.
func (b *Balancer) AttachReceiver(ifindex int) error { return b.attach(b.programs.Receive, ifindex) }

func (b *Balancer) attach(program *ebpf.Program, ifindex int) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attach %s: %w", program, err)
	}
	b.links = append(b.links, l)
	return nil
}

// unwrapPriority is behind whatever else looks at arriving packets.
const unwrapPriority = 0xc000

// AttachUnwrap has outer headers taken away at a link of the current namespace, as a tunnel device would, but behind all other programs of
// the link. It goes with the link.
func (b *Balancer) AttachUnwrap(ifindex int) error {
	clsact := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
	if err := netlink.QdiscAdd(clsact); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: ifindex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: unwrapPriority},
		Fd:           b.programs.Unwrap.FD(),
		Name:         "unwrap",
		DirectAction: true,
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("attach what takes outer headers away: %w", err)
	}
	return nil
}

// Source sets the outer source addresses. Without them they are made up from the client's: in 172.16.0.0/16 or 100::/64, as Katran's are for IPIP.
func (b *Balancer) Source(v4, v6 netip.Addr) error {
	var s programsSource
	if v4.IsValid() {
		s.V4 = v4.As4()
	}
	if v6.IsValid() {
		s.V6 = v6.As16()
	}
	return b.programs.Sources.Put(uint32(0), s)
}

// Set adds or changes a service. Connections of servers that stay keep them, but for those whose place in the table goes to a new one.
func (b *Balancer) Set(s Service) error {
	index, known := b.services[s.VIP]
	if !known {
		index = uint32(len(b.services))
		b.services[s.VIP] = index
	}
	hosts, numbers, err := b.serversUp(s)
	if err != nil {
		return err
	}
	if b.katran != nil {
		return b.katran.set(s, index, numbers, hashing.NewMaglev(hosts, katranRing).Places())
	}
	if err := b.fill(index, hosts, numbers); err != nil {
		return fmt.Errorf("fill the table of %s: %w", s.VIP, err)
	}
	key := programsServiceKey{Vip: bytesOf(s.VIP.Addr()), Port: networkOrder(s.VIP.Port())}
	return b.programs.Services.Put(key, programsService{Index: index, Encapsulation: s.Encapsulation})
}

func (s Service) up() []Server {
	return slices.DeleteFunc(slices.Clone(s.Servers), func(server Server) bool { return server.Down })
}

// serversUp gives the servers that are up, and their numbers, a place among the program's.
func (b *Balancer) serversUp(s Service) (hosts []hashing.Host, numbers []uint32, err error) {
	for _, server := range s.up() {
		number, known := b.reals[server.Address]
		if !known {
			number = uint32(len(b.reals))
			b.reals[server.Address] = number
			place := programsReal{Address: bytesOf(server.Address)}
			if server.Address.Is6() {
				place.IsV6 = 1
			}
			if err := b.programs.Reals.Put(number, place); err != nil {
				return nil, nil, fmt.Errorf("add server %s: %w", server.Address, err)
			}
		}
		hosts = append(hosts, hashing.Host{Key: server.Address.String()})
		numbers = append(numbers, number)
	}
	for i := range hosts {
		hosts[i].Share = 1 / float64(len(hosts))
	}
	return hosts, numbers, nil
}

func (b *Balancer) fill(index uint32, hosts []hashing.Host, numbers []uint32) error {
	places := hashing.NewMaglev(hosts, ringSize).Places()
	keys, values := make([]uint32, ringSize), make([]uint32, ringSize)
	for i := range keys {
		keys[i] = index*ringSize + uint32(i)
		if len(places) > 0 {
			values[i] = numbers[places[i]] + 1
		}
	}
	_, err := b.programs.Rings.BatchUpdate(keys, values, &ebpf.BatchOptions{})
	return err
}

// Counts of packets that arrived for services.
type Counts struct {
	SYNs, Others, ICMPs uint64
	// NoServer and Failures were dropped.
	NoServer, Failures uint64
}

// Counts reads our own program's counters.
func (b *Balancer) Counts() (c Counts, err error) {
	for what, into := range map[programsCounter]*uint64{
		programsCounterSYNS: &c.SYNs, programsCounterOTHERS: &c.Others, programsCounterICMPS: &c.ICMPs,
		programsCounterNO_SERVER: &c.NoServer, programsCounterFAILURES: &c.Failures,
	} {
		var perCPU []uint64
		if err := b.programs.Counters.Lookup(what, &perCPU); err != nil {
			return c, fmt.Errorf("read the balancer's counters: %w", err)
		}
		for _, n := range perCPU {
			*into += n
		}
	}
	return c, nil
}

// Close detaches the balancer.
func (b *Balancer) Close() error {
	var errs []error
	for _, l := range b.links {
		errs = append(errs, l.Close())
	}
	if b.katran != nil {
		b.katran.Close()
	}
	return errors.Join(append(errs, b.programs.Close())...)
}

func networkOrder(port uint16) uint16 { return port<<8 | port>>8 }

func bytesOf(a netip.Addr) (out [16]byte) {
	copy(out[:], a.AsSlice())
	return out
}
