// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// Sockets are the maps that follow single connections.
type Sockets struct {
	Anchors    bpfmap.Table[uint64, AnchorPorts]
	Accounts   bpfmap.Table[uint32, Account]
	Conns      bpfmap.Table[ConnKey, ConnRecord]
	SlowConns  bpfmap.Table[uint64, SlowConn]
	Peers      bpfmap.Table[PeerKey, uint32]
	Pools      bpfmap.Table[PoolKey, uint32]
	ISockSlots bpfmap.Table[uint64, uint32]

	conns, slowConns, psocks, isocks *ebpf.Map
	// queued is xlb_queued, nil without the fast path.
	queued *ebpf.Program
	// client is xlb_client, likewise.
	client *ebpf.Program
	// urgent is xlb_urgent, likewise.
	urgent *ebpf.Program
	// sequences and ssocks are likewise those that ForgetSequences looks at.
	sequences bpfmap.Table[uint64, uint64]
	ssocks    bpfmap.Table[uint32, uint64]
}

// NewSockets wraps the kernel's maps.
func NewSockets(anchors, strangers, accounts, conns, slowConns, peers, pools, isockSlots, psocks, isocks *ebpf.Map) *Sockets {
	return &Sockets{
		Anchors:    newAnchors(anchors, strangers),
		Accounts:   bpfmap.NewTable[uint32, Account]("accounts", accounts),
		Conns:      bpfmap.NewTable[ConnKey, ConnRecord]("conns", conns),
		SlowConns:  newCookieTable[SlowConn]("slow_conns", slowConns),
		Peers:      bpfmap.NewTable[PeerKey, uint32]("peers", peers),
		Pools:      bpfmap.NewTable[PoolKey, uint32]("pool_indices", pools),
		ISockSlots: bpfmap.NewTable[uint64, uint32]("isock_slots", isockSlots),
		conns:      conns,
		slowConns:  slowConns,
		psocks:     psocks,
		isocks:     isocks,
	}
}

// TakeConn returns what the kernel knows of an accepted connection, and removes it from the map.
func (s *Sockets) TakeConn(k ConnKey) (ConnRecord, bool) {
	var r ConnRecord
	err := bpfmap.LookupAndDelete(s.conns, &k, &r)
	return r, err == nil
}

// MarkSlow keeps a p-sock off the fast path until an offer is accepted, without disturbing an entry that is there. What the client sends
// meanwhile waits for the end of the lease, if one is named, or is part of it, if that is a tunnel.
func (s *Sockets) MarkSlow(cookie uint64, reason Verdict, l Lease) error {
	c := SlowConn{Reason: uint32(reason)}
	if l.Number != 0 {
		c.Slot, c.Lease, c.HasLease = l.Slot, l.Number, 1
	}
	err := s.slowConns.Update(CookieKeyOf(cookie), c, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("mark connection as slow: %w", err)
	}
	return nil
}

// Offer gives a connection back to the fast path: so many bytes were read from its anchor, and written there, and so many requests has it
// carried. A connection that is not marked slow needs no offer. what tells whether its client has been answered. settled: no bytes that a program has moved are on their way to its client, nor
// will be before the offer is accepted.
func (s *Sockets) Offer(cookie uint64, read, written, requests uint32, what Offer, settled bool) error {
	return s.answered(cookie, requests, settled, uint64(written)<<32|uint64(read), what)
}

// Withhold is Offer for a connection that is to stay with the daemon.
func (s *Sockets) Withhold(cookie uint64, requests uint32, settled bool) error {
	return s.answered(cookie, requests, settled, 0, OfferNone)
}

// answered notes that the daemon has answered all that a connection has sent.
func (s *Sockets) answered(cookie uint64, requests uint32, settled bool, offer uint64, what Offer) error {
	c, ok, err := s.SlowConns.Lookup(cookie)
	if err != nil || !ok {
		return err
	}
	c.Offer, c.Offered = offer, uint32(what)
	// They were for a request that has been answered. If the next one comes before the offer is made, the daemon balances it.
	c.Draw, c.Endpoint = 0, 0
	c.Requests = max(c.Requests, requests)
	if settled {
		c.Settled = 1
	}
	err = s.slowConns.Update(CookieKeyOf(cookie), c, ebpf.UpdateExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("offer connection to the fast path: %w", err)
	}
	return nil
}

// ClientOpen reports whether the client still holds its socket, closed or half closed for writing as it may be.
func (s *Sockets) ClientOpen(cookie uint64) bool {
	var c uint64
	return s.psocks.Lookup(cookie, &c) == nil
}

// SetQueued gives the program that tells of bytes on their way.
func (s *Sockets) SetQueued(p *ebpf.Program) { s.queued = p }

// SetClient gives the program that tells how a client's connection stands.
func (s *Sockets) SetClient(p *ebpf.Program) { s.client = p }

// LookAt tells how a client's connection stands, and has its next request handed over unless hold is HoldNot. Known is 0 where no program
// sees the client's bytes.
func (s *Sockets) LookAt(cookie uint64, hold Hold) (ClientLook, error) {
	look := ClientLook{Cookie: cookie, Hold: uint32(hold)}
	if s.client == nil {
		return look, nil
	}
	packet, err := binary.Append(Packet(nil), binary.NativeEndian, look)
	if err != nil {
		return look, fmt.Errorf("look at a client's connection: %w", err)
	}
	run := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet))}
	failure, err := s.client.Run(&run)
	if err == nil && failure != 0 {
		err = fmt.Errorf("the kernel program has failed: %d", int32(failure))
	}
	if err == nil {
		_, err = binary.Decode(run.DataOut[len(Packet(nil)):], binary.NativeEndian, &look)
	}
	if err != nil {
		return look, fmt.Errorf("look at a client's connection: %w", err)
	}
	return look, nil
}

// Packet is what a tc program is given to read those bytes: an Ethernet header comes first.
func Packet(payload []byte) []byte {
	const ethernetHeader = 14
	return append(make([]byte, ethernetHeader), payload...)
}

// Queued reports whether redirected bytes are on their way to a client, but not yet in its receive queue.
func (s *Sockets) Queued(cookie uint64) (bool, error) {
	if s.queued == nil {
		return false, nil
	}
	packet := Packet(binary.NativeEndian.AppendUint64(nil, cookie))
	segments, err := s.queued.Run(&ebpf.RunOptions{Data: packet})
	if err != nil {
		return false, fmt.Errorf("look for bytes on their way to a client: %w", err)
	}
	return int32(segments) > 0, nil
}

// SetUrgent names the filter that finds urgent data among what i-socks send.
func (s *Sockets) SetUrgent(p *ebpf.Program) { s.urgent = p }

// JoinISock makes what a remote endpoint sends run the filter and the verdict program.
func (s *Sockets) JoinISock(slot uint32, cookie uint64, fd int) error {
	if err := s.ISockSlots.Put(cookie, slot); err != nil {
		return err
	}
	if s.urgent != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, s.urgent.FD()); err != nil {
			return errors.Join(fmt.Errorf("attach filter for urgent data: %w", err), s.ISockSlots.Delete(cookie))
		}
	}
	if err := s.isocks.Put(slot, uint64(fd)); err != nil {
		return errors.Join(fmt.Errorf("add socket to map isocks: %w", err), s.ISockSlots.Delete(cookie))
	}
	return nil
}

// LeaveISock takes the filter from a socket that is about to be closed. What the endpoint has not acknowledged may keep the socket for minutes,
// and the filter would keep the daemon's maps for as long.
func (s *Sockets) LeaveISock(fd int) {
	// It fails where no filter was attached.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
}
