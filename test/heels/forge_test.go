// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/heels/stand"
)

// segment is a TCP SYN as an attacker makes it.
type segment struct {
	from, to netip.AddrPort
	options  []byte // a multiple of four bytes, at most 40
}

// heelsOption is the option of a SYN in its whole length: who the client is, and the VIP it wants.
func heelsOption(client, vip netip.AddrPort) []byte {
	o := []byte{optionKind, 20, optionExID >> 8, optionExID & 0xff}
	c, v := client.Addr().As4(), vip.Addr().As4()
	o = append(o, c[:]...)
	o = binary.BigEndian.AppendUint16(o, client.Port())
	o = append(o, v[:]...)
	o = binary.BigEndian.AppendUint16(o, vip.Port())
	return append(o, 0, 0, 0, 0)
}

// encode makes an IPv4 packet.
func (s segment) encode() []byte {
	const tcpHead = 20
	length := tcpHead + len(s.options)
	p := make([]byte, 20+length)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	from, to := s.from.Addr().As4(), s.to.Addr().As4()
	copy(p[12:], from[:])
	copy(p[16:], to[:])
	binary.BigEndian.PutUint16(p[10:], checksum(0, p[:20]))

	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, s.from.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.to.Port())
	binary.BigEndian.PutUint32(tcp[4:], 1000)
	tcp[12] = byte(length/4) << 4
	tcp[13] = flagSYN
	binary.BigEndian.PutUint16(tcp[14:], 64_000)
	copy(tcp[tcpHead:], s.options)
	seal(p)
	return p
}

// seal writes the checksum of a TCP segment, which is of whole words, over IPv4 or IPv6 without anything between the headers.
func seal(p []byte) {
	head, addresses := 20, p[12:20]
	if p[0]>>4 == 6 {
		head, addresses = 40, p[8:40]
	}
	tcp := p[head:]
	tcp[16], tcp[17] = 0, 0
	pseudo := sum(sum(uint32(len(tcp)), addresses), []byte{0, unix.IPPROTO_TCP})
	binary.BigEndian.PutUint16(tcp[16:], checksum(pseudo, tcp))
}

// sum adds up words of two bytes (RFC 1071).
func sum(start uint32, p []byte) uint32 {
	for i := 0; i+1 < len(p); i += 2 {
		start += uint32(p[i])<<8 | uint32(p[i+1])
	}
	return start
}

func checksum(start uint32, p []byte) uint16 {
	s := sum(start, p)
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// encapsulated wraps a packet as an IPIP balancer does.
func encapsulated(from, to netip.Addr, inner []byte) []byte {
	p := make([]byte, 20, 20+len(inner))
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_IPIP
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(inner)))
	f, t := from.As4(), to.As4()
	copy(p[12:], f[:])
	copy(p[16:], t[:])
	binary.BigEndian.PutUint16(p[10:], checksum(0, p))
	return append(p, inner...)
}

// post sends an IP packet from a host as it is.
func (b *bed) post(h *stand.Host, packet []byte) {
	b.t.Helper()
	must(b.t, h.Do(func() error {
		var (
			family int
			to     unix.Sockaddr
		)
		if packet[0]>>4 == 6 {
			family, to = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(packet[24:40])}
		} else {
			family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}
		}
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, to)
	}))
}

// reply is a TCP segment that a host sent.
type reply struct {
	from, to netip.AddrPort
	flags    byte
	options  []byte
}

// wire reads what a host sends over its link.
type wire struct {
	b  *bed
	fd int
}

// listen begins to read what the host sends.
func (b *bed) listen(h *stand.Host) *wire {
	b.t.Helper()
	w := &wire{b: b}
	must(b.t, h.Do(func() (err error) {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all)
		return err
	}))
	b.t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

// next returns the next IPv4 TCP segment that the host sends to a port, or false when there is none for a while.
func (w *wire) next(port uint16, patience time.Duration) (reply, bool) {
	w.b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		p, ok := w.packet(deadline)
		if !ok {
			return reply{}, false
		}
		if len(p) < 40 || p[0] != 0x45 || p[9] != unix.IPPROTO_TCP {
			continue
		}
		tcp := p[20:]
		r := reply{
			from:    netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), binary.BigEndian.Uint16(tcp)),
			to:      netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), binary.BigEndian.Uint16(tcp[2:])),
			flags:   tcp[13],
			options: tcp[20:min(int(tcp[12]>>4)*4, len(tcp))],
		}
		if r.to.Port() == port {
			return r, true
		}
	}
}

// syns returns the next n SYNs that the host sends, ready to be sent again.
func (w *wire) syns(n int) (all [][]byte) {
	w.b.t.Helper()
	for deadline := time.Now().Add(patience); len(all) < n; {
		p, ok := w.packet(deadline)
		if !ok {
			w.b.t.Fatalf("%d SYNs within %v, want %d", len(all), patience, n)
		}
		head, protocol := 20, 9
		if p[0]>>4 == 6 {
			head, protocol = 40, 6
		}
		if len(p) < head+20 || p[protocol] != unix.IPPROTO_TCP || p[head+13] != flagSYN {
			continue
		}
		seal(p)
		all = append(all, p)
	}
	return all
}

// packet returns the next IP packet that the host sends, or false when there is none in time.
func (w *wire) packet(deadline time.Time) ([]byte, bool) {
	w.b.t.Helper()
	buffer := make([]byte, 2048)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return nil, false
		}
		timeout := unix.NsecToTimeval(left.Nanoseconds())
		must(w.b.t, unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
		n, from, err := unix.Recvfrom(w.fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		must(w.b.t, err)
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING && n > 0 {
			return buffer[:n], true
		}
	}
}

const (
	flagSYN     = 0x02
	flagsSYNACK = 0x12
	// quiet is how long a test waits for what must not come.
	quiet = 300 * time.Millisecond
)

// forged are SYNs that no client of a balancer sends, from the client's host unless they say otherwise.
func TestForgedOptionsChangeNothing(t *testing.T) {
	b := newBed(t)
	w := encapsulating
	b.balance(w)
	b.serve(w.serverPort())
	only := b.Servers[0]
	b.agent(only, b.serverConfig(w, only))
	vip, client := w.target(), netip.AddrPortFrom(b.Client.Address(), 0)
	synthetic := netip.MustParseAddr("172.16.7.7")
	stranger := netip.MustParseAddrPort("10.0.9.9:0")
	// mss makes a SYN look like one.
	mss := []byte{2, 4, 5, 180}
	nop := []byte{1, 1, 1, 1}
	good := func(c netip.AddrPort) []byte { return heelsOption(c, vip) }
	tests := []struct {
		name string
		// outer is the balancer's address; not valid: the SYN comes as it is, to the server's own address.
		outer netip.Addr
		from  netip.AddrPort
		// options of a SYN from an address.
		options func(from netip.AddrPort) []byte
		// direct: the answer names the server, so the SYN was taken.
		direct bool
	}{
		{name: "as the balancer delivers it", outer: synthetic, from: client, options: good, direct: true},
		{name: "from elsewhere than the balancer", outer: b.Client.Address(), from: client, options: good},
		{name: "without a balancer", from: client, options: good},
		{name: "another VIP", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return heelsOption(c, netip.MustParseAddrPort("10.0.0.200:80"))
		}},
		{name: "another port of the VIP", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return heelsOption(c, netip.AddrPortFrom(vip.Addr(), 81))
		}},
		{name: "another client", outer: synthetic, from: client, options: func(netip.AddrPort) []byte {
			return heelsOption(netip.MustParseAddrPort("10.0.3.77:7777"), vip)
		}},
		{name: "a client that none may be", outer: synthetic, from: stranger, options: good},
		{name: "cut short", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			o := good(c)[:12]
			o[1] = 12
			return o
		}},
		{name: "longer than its header", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return good(c)[:16]
		}},
		{name: "a length of zero", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			o := good(c)
			o[1] = 0
			return o
		}},
		{name: "twice", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return append(good(c), good(c)...)
		}},
		{name: "at an odd place", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return append(append([]byte{1}, good(c)...), 1, 1, 1)
		}},
		{name: "behind the end of options", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return append([]byte{1, 1, 1, 0}, good(c)...)
		}},
		{name: "of another experiment", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			o := good(c)
			o[3]++
			return o
		}},
		{name: "with Fast Open", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return append(good(c), 34, 2, 1, 1)
		}},
		{name: "with Multipath TCP", outer: synthetic, from: client, options: func(c netip.AddrPort) []byte {
			return append(good(c), 30, 4, 0, 1)
		}},
	}
	wire := b.listen(only)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from := netip.AddrPortFrom(test.from.Addr(), uint16(15_000+i))
			options := append(append([]byte{}, mss...), test.options(from)...)
			if len(options) > 40 {
				options = options[len(mss):] // two whole options fill the header
			}
			if len(options) < 8 {
				options = append(options, nop...)
			}
			to := vip
			if !test.outer.IsValid() {
				to = netip.AddrPortFrom(only.Address(), w.serverPort())
			}
			packet := segment{from: from, to: to, options: options}.encode()
			if test.outer.IsValid() {
				packet = encapsulated(test.outer, only.Address(), packet)
			}
			b.post(b.Client, packet)
			r, answered := wire.next(from.Port(), quiet)
			if !answered {
				if test.direct {
					t.Fatal("the server does not answer: the other cases show nothing")
				}
				return
			}
			// Whoever is answered is who sent, from where he sent to.
			if r.flags != flagsSYNACK || r.to != from || r.from != to {
				t.Errorf("the server sends a segment with flags %#x from %s to %s; want a SYN-ACK from %s to %s", r.flags, r.from, r.to, to, from)
			}
			if has := hasOption(r.options, optionKind); has != test.direct {
				t.Errorf("the answer has the option: %t, want %t", has, test.direct)
			}
		})
	}
	// And nobody is worse off.
	short := few(vip, 20)
	complete(t, short, b.ask(short))
}

// hasOption looks for a kind among TCP options.
func hasOption(options []byte, kind byte) bool {
	for len(options) > 0 && options[0] != 0 {
		if options[0] == kind {
			return true
		}
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
			return false
		}
		options = options[options[1]:]
	}
	return false
}
