// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// halfSipHash is HalfSipHash-2-4 with 32 bits of result, over whole words.
func halfSipHash(k settings.Key, words ...uint32) uint32 {
	v := [4]uint32{k[0], k[1], 0x6c796765 ^ k[0], 0x74656462 ^ k[1]}
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
	v[2] ^= 0xff
	rounds(4)
	return v[1] ^ v[3]
}

// The first and fifth vector of the reference: key 00 01 02 ..., no input, and 00 01 02 03.
func TestHalfSipHashAgreesWithItsReference(t *testing.T) {
	k := settings.Key{0x03020100, 0x07060504}
	for _, tt := range []struct {
		words []uint32
		want  []byte
	}{
		{nil, []byte{0xa9, 0x35, 0x9f, 0x5b}},
		{[]uint32{0x03020100}, []byte{0x2a, 0x6e, 0x46, 0x89}},
	} {
		if got := halfSipHash(k, tt.words...); got != binary.LittleEndian.Uint32(tt.want) {
			t.Errorf("%x: %08x, want % x", tt.words, got, tt.want)
		}
	}
}

// fixture is a SYN as it comes to a server. Zero values are replaced by those of a good one.
type fixture struct {
	client, from, to, vip      string // with port
	options                    []byte
	flags                      byte
	seq                        uint32 // added to the usual one
	ours                       bool   // adds our option, made of client and vip
	key                        *settings.Key
	moved                      uint32 // added to the sequence number after the option was signed
	slot                       uint32 // added to the slot of time that is signed
	legacy                     bool   // signed without sequence number and time
	outer                      string // source of an outer header
	outerTo                    string
	fragment                   bool
	second                     bool // our option twice
	odd, short, longer, broken bool // at an odd place; without its tag; with two bytes more; with a length beyond the end
}

// tagSlot is the slot of time that is signed now.
func tagSlot() uint32 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &ts); err != nil {
		panic(err)
	}
	return uint32(uint64(ts.Nano()) >> 36)
}

func (f *fixture) option() []byte {
	client, vip := netip.MustParseAddrPort(f.client), netip.MustParseAddrPort(f.vip)
	o := []byte{254, 20, 0x48, 0x45}
	o = append(o, client.Addr().AsSlice()...)
	o = binary.BigEndian.AppendUint16(o, client.Port())
	o = append(o, vip.Addr().AsSlice()...)
	o = binary.BigEndian.AppendUint16(o, vip.Port())
	tag := uint32(0)
	if f.key != nil {
		ports := uint32(kernel.Order(client.Port()))<<16 | uint32(kernel.Order(vip.Port()))
		words := []uint32{1, kernel.Word(o[4:]), kernel.Word(o[10:]), ports, 0x12345678 + f.seq, tagSlot() + f.slot}
		if f.legacy {
			words = words[:4]
		}
		tag = max(halfSipHash(*f.key, words...), 1)
	}
	o = binary.NativeEndian.AppendUint32(o, tag)
	switch {
	case f.short:
		o[1] = 16
		o = o[:16]
	case f.longer:
		o[1] = 24
		o = append(o, 0, 0, 0, 0)
	case f.broken:
		o[1] = 36
	}
	if f.odd {
		o = append(append([]byte{1}, o...), 1, 1, 1)
	}
	return o
}

// packet is the SYN with its Ethernet header.
func (f *fixture) packet() []byte {
	from, to := netip.MustParseAddrPort(f.from), netip.MustParseAddrPort(f.to)
	options := bytes.Clone(f.options)
	if f.ours {
		options = append(options, f.option()...)
	}
	if f.second {
		options = append(options, f.option()...)
	}
	tcp := make([]byte, 20, 60)
	binary.BigEndian.PutUint16(tcp, from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], 0x12345678+f.seq+f.moved)
	tcp[13] = f.flags
	binary.BigEndian.PutUint16(tcp[14:], 64240)
	tcp = append(tcp, options...)
	tcp[12] = byte(len(tcp) / 4 << 4)
	p := outer(unix.IPPROTO_TCP, len(tcp), to.Addr())
	copy(p[12:], from.Addr().AsSlice())
	if f.fragment {
		p[6] = 0x20
	}
	sumHeader(p)
	p = append(p, tcp...)
	heelstest.FinishChecksum(p)
	if f.outer != "" {
		inner := p
		p = outer(unix.IPPROTO_IPIP, len(inner), netip.MustParseAddr(f.outerTo))
		copy(p[12:], netip.MustParseAddr(f.outer).AsSlice())
		sumHeader(p)
		p = append(p, inner...)
	}
	return append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, p...)
}

func sumHeader(p []byte) {
	p[10], p[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(p[i])<<8 | uint32(p[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum))
}

// lab is a server's programs in a namespace with a listener, for packets that nobody sent.
type lab struct {
	*Agent
	host *host
}

func newLab(t *testing.T, text string, listen ...string) *lab {
	t.Helper()
	h := &host{Host: &heelstest.Host{T: t, NS: heelstest.NewNS(t), Name: "lab"}}
	heelstest.Within(t, h.NS, func() error { return heelstest.LinkUp("lo") })
	heelstest.Within(t, h.NS, func() error { return heelstest.AddAddr("lo", testServer1+"/32") })
	heelstest.Within(t, h.NS, func() error { return heelstest.AddAddr("lo", lab6Server+"/128") })
	h.pin = filepath.Join(heelstest.BPFFS(t), "lab")
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [lo]\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	var a *Agent
	heelstest.Within(t, h.NS, func() error {
		k, err := load(h.pin, &c.Option)
		if err != nil {
			return err
		}
		a = &Agent{Kernel: k, config: c}
		return k.apply(c)
	})
	t.Cleanup(func() { a.Close() })
	for _, address := range listen {
		var l net.Listener
		heelstest.Within(t, h.NS, func() (err error) {
			l, err = net.Listen("tcp", address)
			return err
		})
		t.Cleanup(func() { l.Close() })
	}
	return &lab{a, h}
}

// reach gives the lab a route; whoever is there does not take what is sent.
func (l *lab) reach(prefix string) {
	l.host.T.Helper()
	l.host.Run("", "ip", "route", "add", prefix, "dev", "lo")
	heelstest.Within(l.host.T, l.host.NS, func() error { return l.learnRoutes(l.config) })
}

// run gives a packet to a program, and returns what became of it and the verdicts that were given.
func (l *lab) run(t *testing.T, program *ebpf.Program, packet []byte) (out []byte, verdicts map[string]uint64) {
	t.Helper()
	before := dump(t, l.Agent)
	out = make([]byte, len(packet)+256)
	o := ebpf.RunOptions{Data: packet, DataOut: out}
	heelstest.Within(t, l.host.NS, func() error {
		_, err := program.Run(&o)
		return err
	})
	verdicts = dump(t, l.Agent)
	for name, n := range before {
		if verdicts[name] -= n; verdicts[name] == 0 {
			delete(verdicts, name)
		}
	}
	return o.DataOut, verdicts
}

const labText = `server:
  address: 10.77.2.1
  vips:
  - { vip: 10.77.0.100:80, port: 8080, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
  - { vip: 10.77.0.101:80, port: 8080, mode: encapsulated, balancers: [172.16.0.0/16], clients: [10.77.3.0/24] }
  - { vip: 10.77.0.102:80, port: 8080, mode: preserved, clients: [10.77.3.0/24] }
  - { vip: 10.77.0.103:80, port: 8081, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
  - { vip: 10.77.0.104:80, port: 8082, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
`

var (
	rewritten = fixture{client: "10.77.3.1:40000", from: "10.77.1.1:1234", to: "10.77.2.1:8080", vip: "10.77.0.100:80", flags: 2, ours: true}
	wrapped   = fixture{client: "10.77.3.1:40000", from: "10.77.3.1:40000", to: "10.77.0.101:80", vip: "10.77.0.101:80", flags: 2, ours: true, outer: "172.16.7.8", outerTo: "10.77.2.1"}
	preserved = fixture{client: "10.77.3.1:40000", from: "10.77.3.1:40000", to: "10.77.2.1:8080", vip: "10.77.0.102:80", flags: 2, ours: true}
)

func with(f fixture, change func(*fixture)) fixture {
	change(&f)
	return f
}

// Every SYN with the option is decided on what it is and where it came from; one that is declined goes on as it came.
func TestSynsAreDecided(t *testing.T) {
	l := newLab(t, labText, "10.77.2.1:8080", "10.77.2.1:8082")
	// The listener on 8080 is prepared, that on 8082 is none of the agent's.
	heelstest.Within(t, l.host.NS, func() error {
		if err := l.maps.HeelsPorts.Delete(kernel.Order(8082)); err != nil {
			return err
		}
		return l.readyListeners()
	})
	other := settings.Key{1, 2}
	for _, tt := range []struct {
		name    string
		f       fixture
		verdict string
	}{
		{"rewritten", rewritten, "committed"},
		{"encapsulated", wrapped, "committed"},
		{"preserved", preserved, "committed"},
		{"behind other options", with(rewritten, func(f *fixture) { f.options = []byte{2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 1, 1} }), "committed"},
		{"no option", with(rewritten, func(f *fixture) { f.ours = false }), ""},
		{"no SYN", with(rewritten, func(f *fixture) { f.flags = 0x10 }), ""},
		{"SYN-ACK", with(rewritten, func(f *fixture) { f.flags = 0x12 }), ""},
		{"fragment", with(rewritten, func(f *fixture) { f.fragment = true }), ""},
		{"of another experiment", with(rewritten, func(f *fixture) {
			f.ours, f.options = false, append([]byte{254, 20, 0x48, 0x46}, make([]byte, 16)...)
		}), ""},
		{"VIP that is not ours", with(rewritten, func(f *fixture) { f.vip = "10.77.0.200:80" }), "decline_vip"},
		{"port of the VIP that is not ours", with(rewritten, func(f *fixture) { f.vip = "10.77.0.100:81" }), "decline_vip"},
		{"from nobody's balancer", with(rewritten, func(f *fixture) { f.from = "10.77.3.1:1234" }), "decline_balancer"},
		{"outer source is no balancer", with(wrapped, func(f *fixture) { f.outer = "172.17.0.1" }), "decapsulate_refused"},
		{"rewritten VIP inside another packet", with(wrapped, func(f *fixture) { f.vip = "10.77.0.100:80" }), "decline_path"},
		{"encapsulated VIP without another packet", with(rewritten, func(f *fixture) { f.vip = "10.77.0.101:80" }), "decline_path"},
		{"to another port of ours", with(rewritten, func(f *fixture) { f.to = "10.77.2.1:8082" }), "decline_path"},
		{"client outside its prefixes", with(rewritten, func(f *fixture) { f.client = "192.0.2.1:40000" }), "decline_client"},
		{"client with our address", with(rewritten, func(f *fixture) { f.client = "10.77.2.1:40000" }), "decline_client"},
		{"preserved for another", with(preserved, func(f *fixture) { f.client = "10.77.3.2:40000" }), "decline_client"},
		{"encapsulated for another", with(wrapped, func(f *fixture) { f.client = "10.77.3.2:40000" }), "decline_client"},
		{"tag that nobody asked for", with(rewritten, func(f *fixture) { f.key = &other }), "decline_tag"},
		{"without its end", with(rewritten, func(f *fixture) { f.short = true }), "decline_malformed"},
		{"too long", with(rewritten, func(f *fixture) { f.longer = true }), "decline_malformed"},
		{"length beyond the header", with(rewritten, func(f *fixture) { f.broken = true }), ""},
		{"twice", with(rewritten, func(f *fixture) { f.second = true }), "decline_malformed"},
		{"at an odd place", with(rewritten, func(f *fixture) { f.odd = true }), "decline_malformed"},
		{"Fast Open", with(rewritten, func(f *fixture) { f.options = []byte{34, 2, 1, 1} }), "decline_fast_open"},
		{"Fast Open as an experiment", with(rewritten, func(f *fixture) { f.options = []byte{254, 4, 0xf9, 0x89} }), "decline_fast_open"},
		{"MPTCP", with(rewritten, func(f *fixture) { f.options = []byte{30, 4, 1, 0} }), "decline_mptcp"},
		{"MD5", with(rewritten, func(f *fixture) { f.options = append(append([]byte{19, 18}, make([]byte, 16)...), 1, 1) }), "decline_signed"},
		{"AO", with(rewritten, func(f *fixture) { f.options = []byte{29, 4, 1, 1} }), "decline_signed"},
		{"nobody listens", with(rewritten, func(f *fixture) { f.vip, f.to = "10.77.0.103:80", "10.77.2.1:8081" }), "decline_no_listener"},
		{"listener that cannot answer", with(rewritten, func(f *fixture) { f.vip, f.to = "10.77.0.104:80", "10.77.2.1:8082" }), "decline_listener"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packet := tt.f.packet()
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			if tt.verdict == "committed" {
				l.checkCommitted(t, &tt.f, out, verdicts)
				return
			}
			if tt.verdict == "" && len(verdicts) != 0 || tt.verdict != "" && verdicts[tt.verdict] != 1 {
				t.Errorf("verdicts %v, want %q", verdicts, tt.verdict)
			}
			if verdicts["decapsulated"] == 1 {
				packet = append(packet[:14:14], packet[34:]...)
			}
			if !bytes.Equal(out, packet) {
				t.Errorf("the packet is\n%x, it was\n%x", out, packet)
			}
		})
	}
}

// checkCommitted wants the SYN as the client would have sent it to our own address, with right checksums and our mark for a tag.
func (l *lab) checkCommitted(t *testing.T, f *fixture, out []byte, verdicts map[string]uint64) {
	t.Helper()
	if verdicts["committed"] != 1 {
		t.Fatalf("verdicts %v, want committed", verdicts)
	}
	want := *f
	want.from, want.to, want.outer = f.client, testServer1+":8080", ""
	packet := want.packet()
	c, err := l.control()
	if err != nil {
		t.Fatal(err)
	}
	client, vip := netip.MustParseAddrPort(f.client), netip.MustParseAddrPort(f.vip)
	ca, va := client.Addr().As4(), vip.Addr().As4()
	mark := max(halfSipHash(c.Secret, 3, kernel.Word(ca[:]), kernel.Word(va[:]), uint32(kernel.Order(client.Port()))<<16|uint32(kernel.Order(vip.Port()))), 1)
	at := bytes.LastIndex(packet, []byte{254, 20, 0x48, 0x45})
	binary.NativeEndian.PutUint32(packet[at+16:], mark)
	heelstest.FinishChecksum(packet[14:])
	if !bytes.Equal(out, packet) {
		t.Errorf("the packet is\n%x, want\n%x", out, packet)
	}
}

// GUE has one form that a server need not understand more of than its length. All else is left to whoever does.
func TestWhatIsNoPlainGUEIsLeftAlone(t *testing.T) {
	l := newLab(t, labText, "10.77.2.1:8080")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	inner := with(wrapped, func(f *fixture) { f.outer = "" })
	for _, tt := range []struct {
		name   string
		port   uint16
		header []byte
		takes  bool
	}{
		{"variant 1", 6080, nil, true},
		{"variant 0", 6080, []byte{0, 4, 0, 0}, true},
		{"private data", 19523, []byte{2, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, true},
		{"another port", 6081, []byte{0, 4, 0, 0}, false},
		{"control message", 6080, []byte{0x20, 4, 0, 0}, false},
		{"variant 2", 6080, []byte{0x80, 4, 0, 0}, false},
		{"no IP inside", 6080, []byte{0, 6, 0, 0}, false},
		{"flags, of a fragment or a checksum to finish", 6080, []byte{1, 4, 0x40, 0, 0, 0, 0, 0}, false},
		{"flags of private data", 6080, []byte{1, 4, 0, 1, 0, 0, 0, 0}, false},
		{"more private data than there is packet", 6080, []byte{31, 4, 0, 0}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := gue(tt.port, tt.header...)(inner.packet()[14:], netip.MustParseAddr("10.77.2.1"))
			copy(p[12:], netip.MustParseAddr(wrapped.outer).AsSlice())
			sumHeader(p)
			packet := slices.Concat(inner.packet()[:14], p)
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			if tt.takes {
				l.checkCommitted(t, &wrapped, out, map[string]uint64{"committed": verdicts["committed"]})
				return
			}
			if len(verdicts) != 0 || !bytes.Equal(out, packet) {
				t.Errorf("verdicts %v, the packet is\n%x, it was\n%x", verdicts, out, packet)
			}
		})
	}
}

// A SYN that comes again belongs to the handshake under way; one with the same two ends and another number is a new connection, for which the
// balancer has room and this tuple has not.
func TestASYNThatMeetsAHandshakeIsTheSameOrDeclined(t *testing.T) {
	l := newLab(t, labText, "10.77.2.1:8080")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	syn := with(rewritten, func(f *fixture) { f.ours, f.from, f.to = false, f.client, "10.77.2.1:8080" })
	// The SYN-ACK must have a way; whoever is there does not take it.
	l.host.Run("", "ip", "route", "add", "10.77.3.0/24", "dev", "lo")
	l.host.post(syn.packet()[14:])
	eventually(t, "a handshake is under way", func() bool { return l.host.halfOpen() == 1 })
	for _, tt := range []struct {
		name, verdict string
		add           uint32
	}{{"the same", "committed", 0}, {"another", "decline_collision", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			f := with(rewritten, func(f *fixture) { f.seq = tt.add })
			if _, verdicts := l.run(t, l.hooks.ServerIngress, f.packet()); verdicts[tt.verdict] != 1 {
				t.Errorf("verdicts %v, want %s", verdicts, tt.verdict)
			}
		})
	}
}

// With keys only tagged SYNs are taken; while they are exchanged the old key is good too.
func TestTagsAreHeldAgainstEveryKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# new, old\n0001020304050607\n08090a0b0c0d0e0f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "option: { key: { file: "+file+" } }\n"+labText, "10.77.2.1:8080")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	for _, tt := range []struct {
		name, verdict string
		key           *settings.Key
	}{
		{"new key", "committed", &settings.Key{0x03020100, 0x07060504}},
		{"old key", "committed", &settings.Key{0x0b0a0908, 0x0f0e0d0c}},
		{"another key", "decline_tag", &settings.Key{1, 2}},
		{"no tag", "decline_tag", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := with(rewritten, func(f *fixture) { f.key = tt.key })
			if _, verdicts := l.run(t, l.hooks.ServerIngress, f.packet()); verdicts[tt.verdict] != 1 {
				t.Errorf("verdicts %v, want %s", verdicts, tt.verdict)
			}
		})
	}
}

// No packet, however short, makes a program do anything.
func TestShortPacketsPass(t *testing.T) {
	l := newLab(t, labText, "10.77.2.1:8080")
	for _, f := range []fixture{rewritten, wrapped} {
		whole := f.packet()
		// The kernel itself refuses to run programs on less than an IP header.
		for n := 34; n < len(whole); n++ {
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
