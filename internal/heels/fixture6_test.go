// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

const lab6Server = "fd77:2::1"

// halfSipHash64 is HalfSipHash-2-4 with 64 bits of result, over whole words.
func halfSipHash64(k settings.Key, words ...uint32) (out [2]uint32) {
	v := [4]uint32{k[0], k[1] ^ 0xee, 0x6c796765 ^ k[0], 0x74656462 ^ k[1]}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[1] = bits.RotateLeft32(v[1], 5) ^ v[0]
			v[0] = bits.RotateLeft32(v[0], 16)
			v[2] += v[3]
			v[3] = bits.RotateLeft32(v[3], 8) ^ v[2]
			v[0] += v[3]
			v[3] = bits.RotateLeft32(v[3], 7) ^ v[0]
			v[2] += v[1]
			v[1] = bits.RotateLeft32(v[1], 13) ^ v[2]
			v[2] = bits.RotateLeft32(v[2], 16)
		}
	}
	for _, w := range append(words, uint32(len(words))*4<<24) {
		v[3] ^= w
		rounds(2)
		v[0] ^= w
	}
	v[2] ^= 0xee
	rounds(4)
	out[0] = v[1] ^ v[3]
	v[1] ^= 0xdd
	rounds(4)
	out[1] = v[1] ^ v[3]
	return out
}

// The first vector of the reference: key 00 01 02 ..., no input.
func TestHalfSipHash64AgreesWithItsReference(t *testing.T) {
	got := halfSipHash64(settings.Key{0x03020100, 0x07060504})
	want := []byte{0x21, 0x8d, 0x1f, 0x59, 0xb9, 0xb8, 0x3c, 0xc8}
	if got[0] != binary.LittleEndian.Uint32(want) || got[1] != binary.LittleEndian.Uint32(want[4:]) {
		t.Errorf("%08x, want % x", got, want)
	}
}

// fixture6 is a SYN over IPv6 as it comes to a server.
type fixture6 struct {
	client, from, to, vip string // with port; vip is for the tag
	options               []byte
	flags                 byte
	urgent                uint16
	plain                 bool // without our option
	key                   *settings.Key
	outer, outerTo        string // addresses of an outer header of either family
	gue                   bool
	extended              bool // a header in front of TCP, of this kind
	extension             byte
	length                int // of our option; 0: as it should be
	second, odd           bool
	moved, slot           uint32 // as a fixture's
}

func tagWords(use uint32, client, vip netip.AddrPort, index uint32) []uint32 {
	words := []uint32{use}
	for _, a := range []netip.Addr{client.Addr(), vip.Addr()} {
		b := a.As16()
		for i := 0; i < len(b); i += 4 {
			words = append(words, kernel.Word(b[i:]))
		}
	}
	return append(words, uint32(kernel.Order(client.Port()))<<16|uint32(kernel.Order(vip.Port())), index)
}

func (f *fixture6) option() []byte {
	client := netip.MustParseAddrPort(f.client)
	o := []byte{254, 20, 0x48, 0x45}
	if f.key != nil {
		o[1] = 12
		for _, w := range halfSipHash64(*f.key, append(tagWords(1, client, netip.MustParseAddrPort(f.vip), 0), 0x12345678, tagSlot()+f.slot)...) {
			o = binary.NativeEndian.AppendUint32(o, w)
		}
	} else {
		o = append(o, client.Addr().AsSlice()...)
	}
	if f.length != 0 {
		o = append(o, make([]byte, 20)...)[:f.length]
		o[1] = byte(f.length)
	}
	if f.odd {
		o = append(append([]byte{1}, o...), 1, 1, 1)
	}
	return o
}

// packet is the SYN with its Ethernet header.
func (f *fixture6) packet() []byte {
	from, to := netip.MustParseAddrPort(f.from), netip.MustParseAddrPort(f.to)
	options := bytes.Clone(f.options)
	if !f.plain {
		options = append(options, f.option()...)
	}
	if f.second {
		options = append(options, f.option()...)
	}
	tcp := make([]byte, 20, 60)
	binary.BigEndian.PutUint16(tcp, from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], 0x12345678+f.moved)
	tcp[13] = f.flags
	binary.BigEndian.PutUint16(tcp[14:], 64240)
	binary.BigEndian.PutUint16(tcp[18:], f.urgent)
	tcp = append(tcp, options...)
	tcp[12] = byte(len(tcp) / 4 << 4)
	sum6(tcp, 16, unix.IPPROTO_TCP, from.Addr(), to.Addr())
	next := byte(unix.IPPROTO_TCP)
	if f.extended {
		tcp = append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, tcp...)
		next = f.extension
	}
	p, kind := header6(next, len(tcp), from.Addr(), to.Addr()), []byte{0x86, 0xdd}
	p = append(p, tcp...)
	if f.outer != "" {
		p, kind = wrap6(p, f.outer, f.outerTo, f.gue)
	}
	return append(append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, kind...), p...)
}

func header6(next byte, length int, from, to netip.Addr) []byte {
	h := make([]byte, 8, 40)
	h[0], h[6], h[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	return append(append(h, from.AsSlice()...), to.AsSlice()...)
}

// wrap6 puts an outer header in front of a packet of either family, and returns the Ethernet type.
func wrap6(inner []byte, from, to string, gue bool) (packet, kind []byte) {
	protocol := byte(unix.IPPROTO_IPIP)
	if inner[0]>>4 == 6 {
		protocol = unix.IPPROTO_IPV6
	}
	if gue {
		udp := binary.BigEndian.AppendUint16(nil, 31000)
		udp = binary.BigEndian.AppendUint16(udp, 6080)
		udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(inner)))
		inner, protocol = append(append(udp, 0, 0), inner...), unix.IPPROTO_UDP
	}
	src, dst := netip.MustParseAddr(from), netip.MustParseAddr(to)
	if src.Is6() {
		return append(header6(protocol, len(inner), src, dst), inner...), []byte{0x86, 0xdd}
	}
	h := outer(protocol, len(inner), dst)
	copy(h[12:], src.AsSlice())
	sumHeader(h)
	return append(h, inner...), []byte{8, 0}
}

// sum6 writes the checksum of an upper layer over IPv6 at an offset.
func sum6(segment []byte, at int, protocol byte, from, to netip.Addr) {
	segment[at], segment[at+1] = 0, 0
	sum := uint32(protocol) + uint32(len(segment))
	for _, part := range [][]byte{from.AsSlice(), to.AsSlice(), segment} {
		for ; len(part) > 1; part = part[2:] {
			sum += uint32(part[0])<<8 | uint32(part[1])
		}
		if len(part) == 1 {
			sum += uint32(part[0]) << 8
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(segment[at:], ^uint16(sum))
}

const lab6Text = `server:
  address: [10.77.2.1, "fd77:2::1"]
  vips:
  - { vip: "[fd77::100]:80", mode: rewritten, balancers: ["fd77:1::/64"], clients: ["fd77:3::/64"] }
  - { vip: "[fd77::101]:80", mode: encapsulated, balancers: ["100::/64", 172.16.0.0/16], clients: ["fd77:3::/64"] }
  - { vip: "[fd77::102]:82", mode: preserved, clients: ["fd77:3::/64"] }
  - { vip: "[fd77::103]:81", mode: rewritten, balancers: ["fd77:1::/64"], clients: ["fd77:3::/64"] }
  - { vip: 10.77.0.101:80, mode: encapsulated, balancers: ["100::/64"], clients: [10.77.3.0/24] }
`

var (
	rewritten6 = fixture6{client: "[fd77:3::1]:40000", from: "[fd77:1::1]:1234", to: "[fd77:2::1]:80", vip: "[fd77::100]:80", flags: 2, urgent: 40000}
	wrapped6   = fixture6{client: "[fd77:3::1]:40000", from: "[fd77:3::1]:40000", to: "[fd77::101]:80", vip: "[fd77::101]:80", flags: 2, outer: "100::7", outerTo: "fd77:2::1"}
	preserved6 = fixture6{client: "[fd77:3::1]:40000", from: "[fd77:3::1]:40000", to: "[fd77:2::1]:82", vip: "[fd77::102]:82", flags: 2, urgent: 40000}
)

func with6(f fixture6, change func(*fixture6)) fixture6 {
	change(&f)
	return f
}

// As TestSynsAreDecided, over IPv6.
func TestSynsOverIPv6AreDecided(t *testing.T) {
	l := newLab(t, lab6Text, "[fd77:2::1]:80", "[fd77:2::1]:82")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	other := settings.Key{1, 2}
	for _, tt := range []struct {
		name    string
		f       fixture6
		verdict string
	}{
		{"rewritten", rewritten6, "committed"},
		{"encapsulated", wrapped6, "committed"},
		{"encapsulated in GUE", with6(wrapped6, func(f *fixture6) { f.gue = true }), "committed"},
		{"encapsulated in IPv4", with6(wrapped6, func(f *fixture6) { f.outer, f.outerTo = "172.16.7.8", "10.77.2.1" }), "committed"},
		{"encapsulated in GUE over IPv4", with6(wrapped6, func(f *fixture6) { f.outer, f.outerTo, f.gue = "172.16.7.8", "10.77.2.1", true }), "committed"},
		{"preserved", preserved6, "committed"},
		{"behind other options", with6(rewritten6, func(f *fixture6) { f.options = []byte{2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 1, 1} }), "committed"},
		{"no option", with6(rewritten6, func(f *fixture6) { f.plain = true }), ""},
		{"no SYN", with6(rewritten6, func(f *fixture6) { f.flags = 0x10 }), ""},
		{"SYN-ACK", with6(rewritten6, func(f *fixture6) { f.flags = 0x12 }), ""},
		{"to a port without a VIP", with6(rewritten6, func(f *fixture6) { f.to = "[fd77:2::1]:85" }), "decline_vip"},
		{"encapsulated VIP without another packet", with6(wrapped6, func(f *fixture6) { f.outer = "" }), "decline_vip"},
		{"rewritten VIP inside another packet", with6(wrapped6, func(f *fixture6) { f.to = "[fd77::100]:80" }), ""},
		{"inside a packet to somebody else", with6(wrapped6, func(f *fixture6) { f.outerTo = "fd77:2::9" }), ""},
		{"from nobody's balancer", with6(rewritten6, func(f *fixture6) { f.from = "[fd77:9::1]:1234" }), "decline_balancer"},
		{"outer source is no balancer", with6(wrapped6, func(f *fixture6) { f.outer = "101::7" }), "decapsulate_refused"},
		{"client outside its prefixes", with6(rewritten6, func(f *fixture6) { f.client = "[fd77:9::1]:40000" }), "decline_client"},
		{"client with our address", with6(rewritten6, func(f *fixture6) { f.client = "[fd77:2::1]:40000" }), "decline_client"},
		{"preserved for another", with6(preserved6, func(f *fixture6) { f.client = "[fd77:3::2]:40000" }), "decline_client"},
		{"encapsulated for another", with6(wrapped6, func(f *fixture6) { f.client = "[fd77:3::2]:40000" }), "decline_client"},
		{"the port has been taken out", with6(rewritten6, func(f *fixture6) { f.urgent = 0 }), "decline_port"},
		{"tag that nobody asked for", with6(wrapped6, func(f *fixture6) { f.key = &other }), "decline_tag"},
		{"tag without an address", with6(rewritten6, func(f *fixture6) { f.key = &other }), "decline_tag"},
		{"cut short", with6(rewritten6, func(f *fixture6) { f.length = 16 }), "decline_malformed"},
		{"too long", with6(rewritten6, func(f *fixture6) { f.length = 24 }), "decline_malformed"},
		{"twice", with6(rewritten6, func(f *fixture6) { f.second = true }), "decline_malformed"},
		{"at an odd place", with6(rewritten6, func(f *fixture6) { f.odd = true }), "decline_malformed"},
		{"Fast Open", with6(rewritten6, func(f *fixture6) { f.options = []byte{34, 2, 1, 1} }), "decline_fast_open"},
		{"MPTCP", with6(rewritten6, func(f *fixture6) { f.options = []byte{30, 4, 1, 0} }), "decline_mptcp"},
		{"behind a hop-by-hop header", with6(rewritten6, func(f *fixture6) { f.extended, f.extension = true, unix.IPPROTO_HOPOPTS }), "decline_extension"},
		{"behind a destination header", with6(rewritten6, func(f *fixture6) { f.extended, f.extension = true, unix.IPPROTO_DSTOPTS }), "decline_extension"},
		{"behind a routing header", with6(rewritten6, func(f *fixture6) { f.extended, f.extension = true, unix.IPPROTO_ROUTING }), ""},
		{"encapsulated behind a hop-by-hop header", with6(wrapped6, func(f *fixture6) { f.extended, f.extension = true, unix.IPPROTO_HOPOPTS }), ""},
		{"nobody listens", with6(rewritten6, func(f *fixture6) { f.vip, f.to = "[fd77::103]:81", "[fd77:2::1]:81" }), "decline_no_listener"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packet := tt.f.packet()
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			if tt.verdict == "committed" {
				l.checkCommitted6(t, &tt.f, out, verdicts)
				return
			}
			if tt.verdict == "" && len(verdicts) != 0 || tt.verdict != "" && verdicts[tt.verdict] != 1 {
				t.Errorf("verdicts %v, want %q", verdicts, tt.verdict)
			}
			if verdicts["decapsulated"] == 1 {
				packet = append(packet[:14:14], packet[54:]...)
			}
			if !bytes.Equal(out, packet) {
				t.Errorf("the packet is\n%x, it was\n%x", out, packet)
			}
		})
	}
}

// index is the number of a server's VIP.
func (l *lab) index(t *testing.T, vip string) uint32 {
	t.Helper()
	var v kernel.ServerVIP
	if err := l.maps.HeelsServerVips.Lookup(kernel.EndOf(netip.MustParseAddrPort(vip)), &v); err != nil {
		t.Fatal(err)
	}
	return v.Index
}

// checkCommitted6 wants the SYN as the client would have sent it to our own address, with a right checksum and our mark in the option.
func (l *lab) checkCommitted6(t *testing.T, f *fixture6, out []byte, verdicts map[string]uint64) {
	t.Helper()
	if verdicts["committed"] != 1 {
		t.Fatalf("verdicts %v, want committed", verdicts)
	}
	client, vip := netip.MustParseAddrPort(f.client), netip.MustParseAddrPort(f.vip)
	to := netip.AddrPortFrom(netip.MustParseAddr(lab6Server), vip.Port())
	want := *f
	want.from, want.to, want.outer, want.urgent = f.client, to.String(), "", 0
	packet := want.packet()
	c, err := l.control()
	if err != nil {
		t.Fatal(err)
	}
	index := l.index(t, f.vip)
	at := bytes.LastIndex(packet, []byte{0x48, 0x45}) + 2
	if packet[at-3] == 20 {
		clear(packet[at : at+16])
	}
	binary.NativeEndian.PutUint32(packet[at:], halfSipHash(c.Secret, tagWords(3, client, vip, index)...))
	binary.NativeEndian.PutUint32(packet[at+4:], index)
	sum6(packet[54:], 16, unix.IPPROTO_TCP, client.Addr(), to.Addr())
	if !bytes.Equal(out, packet) {
		t.Errorf("the packet is\n%x, want\n%x", out, packet)
	}
}

// IPv4 inside IPv6 is taken as IPv4 inside IPv4.
func TestIPv4InsideIPv6IsDecided(t *testing.T) {
	l := newLab(t, lab6Text, "10.77.2.1:80")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	f := with(wrapped, func(f *fixture) { f.outer = "" })
	for _, tt := range []struct {
		name, from, to, verdict string
		gue                     bool
	}{
		{"IPv6", "100::7", lab6Server, "committed", false},
		{"GUE over IPv6", "100::7", lab6Server, "committed", true},
		{"no balancer", "101::7", lab6Server, "decapsulate_refused", false},
		{"to another", "100::7", "fd77:2::9", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inner := f.packet()[14:]
			p, kind := wrap6(inner, tt.from, tt.to, tt.gue)
			packet := append(append(make([]byte, 12), kind...), p...)
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			if tt.verdict == "committed" {
				want := with(f, func(f *fixture) { f.to = testServer1 + ":80" })
				if verdicts["committed"] != 1 || !bytes.Equal(out[12:34], append([]byte{8, 0}, want.packet()[14:34]...)) {
					t.Errorf("verdicts %v, packet\n%x", verdicts, out)
				}
				return
			}
			if tt.verdict == "" && len(verdicts) != 0 || tt.verdict != "" && verdicts[tt.verdict] != 1 || !bytes.Equal(out, packet) {
				t.Errorf("verdicts %v, want %q; packet\n%x", verdicts, tt.verdict, out)
			}
		})
	}
}

// As TestTagsAreHeldAgainstEveryKey. With a tag there is no room for the client's address, which the balancer must leave.
func TestTagsOverIPv6AreHeldAgainstEveryKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# new, old\n0001020304050607\n08090a0b0c0d0e0f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "option: { key: { file: "+file+` } }
server:
  address: "fd77:2::1"
  vips:
  - { vip: "[fd77::101]:80", mode: encapsulated, balancers: ["100::/64"], clients: ["fd77:3::/64"] }
  - { vip: "[fd77::102]:82", mode: preserved, clients: ["fd77:3::/64"] }
`, "[fd77:2::1]:80", "[fd77:2::1]:82")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	for _, good := range []fixture6{wrapped6, preserved6} {
		for _, tt := range []struct {
			name, verdict string
			key           *settings.Key
		}{
			{"new key", "committed", &settings.Key{0x03020100, 0x07060504}},
			{"old key", "committed", &settings.Key{0x0b0a0908, 0x0f0e0d0c}},
			{"another key", "decline_tag", &settings.Key{1, 2}},
			{"no tag", "decline_tag", nil},
		} {
			t.Run(good.vip+" "+tt.name, func(t *testing.T) {
				f := with6(good, func(f *fixture6) { f.key = tt.key })
				out, verdicts := l.run(t, l.hooks.ServerIngress, f.packet())
				if verdicts[tt.verdict] != 1 {
					t.Fatalf("verdicts %v, want %s", verdicts, tt.verdict)
				}
				if tt.verdict == "committed" {
					l.checkCommitted6(t, &f, out, verdicts)
				}
			})
		}
	}
}

// icmp6 is an error about a packet that is quoted, with its Ethernet header.
func icmp6(kind byte, from, to, quotedFrom, quotedTo string) []byte {
	src, dst := netip.MustParseAddrPort(quotedFrom), netip.MustParseAddrPort(quotedTo)
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, src.Port()), dst.Port())
	quoted := append(append(header6(unix.IPPROTO_TCP, 20, src.Addr(), dst.Addr()), ports...), make([]byte, 16)...)
	body := append([]byte{kind, 0, 0, 0, 0, 0, 5, 0}, quoted...)
	a, b := netip.MustParseAddr(from), netip.MustParseAddr(to)
	sum6(body, 2, unix.IPPROTO_ICMPV6, a, b)
	return append(header6(unix.IPPROTO_ICMPV6, len(body), a, b), body...)
}

// An error that a balancer passes on comes to the connection, with a right checksum; neighbour discovery and the like are left alone.
func TestErrorsOverIPv6ComeToTheServer(t *testing.T) {
	l := newLab(t, lab6Text, "[fd77:2::1]:80")
	ethernet := append(make([]byte, 12), 0x86, 0xdd)
	for _, tt := range []struct {
		name string
		kind byte
		took bool
	}{
		{"unreachable", 1, true},
		{"packet too big", 2, true},
		{"time exceeded", 3, false},
		{"echo", 128, false},
		{"neighbour solicitation", 135, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inner := icmp6(tt.kind, "fd77:9::1", "fd77::101", "[fd77::101]:80", "[fd77:3::1]:40000")
			p, _ := wrap6(inner, "100::7", lab6Server, false)
			packet := append(bytes.Clone(ethernet), p...)
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			want := packet
			if tt.took {
				want = append(bytes.Clone(ethernet), icmp6(tt.kind, "fd77:9::1", lab6Server, "["+lab6Server+"]:80", "[fd77:3::1]:40000")...)
			}
			if !bytes.Equal(out, want) || tt.took != (verdicts["server_icmp"] == 1) {
				t.Errorf("verdicts %v, the packet is\n%x, want\n%x", verdicts, out, want)
			}
		})
	}
}

// testChecksumComplete has the kernel check the sum over the whole packet that a device may hand up, as it would on receiving (linux/bpf.h).
const testChecksumComplete = 1 << 2

// A device's sum over the whole packet holds after addresses have changed: over IPv6, no other checksum makes up for them.
func TestWholeSumsHold(t *testing.T) {
	l := newLab(t, lab6Text, "[fd77:2::1]:80", "[fd77:2::1]:82")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	for _, f := range []fixture6{rewritten6, wrapped6, preserved6} {
		heelstest.Within(t, l.host.NS, func() error {
			packet := f.packet()
			o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Flags: testChecksumComplete}
			_, err := l.hooks.ServerIngress.Run(&o)
			if errors.Is(err, unix.EINVAL) {
				t.Skip("the kernel cannot test this: needs BPF_F_TEST_SKB_CHECKSUM_COMPLETE")
			}
			return err
		})
	}
	if n := l.count(t, "committed"); n != 3 {
		t.Errorf("%d of 3 SYNs were taken", n)
	}
}

// As TestShortPacketsPass.
func TestShortIPv6PacketsPass(t *testing.T) {
	l := newLab(t, lab6Text, "[fd77:2::1]:80")
	wide := with6(wrapped6, func(f *fixture6) { f.outer, f.outerTo, f.gue = "172.16.7.8", "10.77.2.1", true })
	for _, f := range []fixture6{rewritten6, wrapped6, wide} {
		whole := f.packet()
		for n := 54; n < len(whole); n++ {
			for name, p := range l.hooks.ByName() {
				if p.Type() != ebpf.SchedCLS {
					continue
				}
				out, verdicts := l.run(t, p, whole[:n])
				if !bytes.Equal(out, whole[:n]) && verdicts["decapsulated"] == 0 {
					t.Errorf("%s changes the first %d bytes of a packet: %v", name, n, verdicts)
				}
			}
		}
	}
}
