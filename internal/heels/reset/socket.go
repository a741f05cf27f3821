// SPDX-License-Identifier: Apache-2.0

package reset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Socket sends resets as sockets of others would: whole IPv4 packets, from any address.
type Socket struct{ fd int }

// Open opens a socket in the network namespace of the calling thread. Without the capability the error says so.
func Open() (*Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if errors.Is(err, unix.EPERM) {
		return nil, errors.New("open a raw socket, to tell balancers of ends: confirm needs CAP_NET_RAW besides")
	}
	if err != nil {
		return nil, fmt.Errorf("open a raw socket: %w", err)
	}
	return &Socket{fd}, nil
}

// Close closes the socket.
func (s *Socket) Close() { unix.Close(s.fd) }

// Send sends a reset with that sequence number.
func (s *Socket) Send(from, to netip.AddrPort, seq uint32) error {
	return unix.Sendto(s.fd, resetOf(from, to, seq), 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
}

// resetOf is an IPv4 packet without the checksum of its IP header, which the kernel fills in.
func resetOf(from, to netip.AddrPort, seq uint32) []byte {
	const ip, tcp = 20, 20
	p := make([]byte, ip+tcp)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], ip+tcp)
	source, dest := from.Addr().As4(), to.Addr().As4()
	copy(p[12:], source[:])
	copy(p[16:], dest[:])
	s := p[ip:]
	binary.BigEndian.PutUint16(s, from.Port())
	binary.BigEndian.PutUint16(s[2:], to.Port())
	binary.BigEndian.PutUint32(s[4:], seq)
	s[12], s[13] = tcp/4<<4, 0x04 // RST
	sum := uint32(unix.IPPROTO_TCP + tcp)
	for _, part := range [][]byte{p[12:20], s} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(s[16:], ^uint16(sum))
	return p
}
