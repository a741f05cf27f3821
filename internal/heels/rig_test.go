// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
	tests "github.com/xlb-project/xlb/test/await"
)

// A busy machine changes no verdict: package await says how.
const (
	patience = tests.Patience
	tries    = tests.Tries
)

// testCgroup holds this process while its tests run: sockets belong to the cgroup of whoever makes them.
var testCgroup string

func TestMain(m *testing.M) {
	code, err := heelstest.InCgroup(func(cgroup string) int {
		testCgroup = cgroup
		return m.Run()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// host is a network namespace with one interface, eth0, and the pins of its agent.
type host struct {
	*heelstest.Host
	pin string
}

// The addresses of the rig; all hosts are on one wire.
const (
	testVIP      = "10.77.0.100"
	testBalancer = "10.77.1.1"
	testServer1  = "10.77.2.1"
	testServer2  = "10.77.2.2"
	testClient   = "10.77.3.1"
)

// rig is a client, a balancer and servers on one wire.
type rig struct {
	t          testing.TB
	wire       *heelstest.Wire
	client, lb *host
	servers    []*host
	// seen counts TCP segments at the balancer, in and out.
	in, out atomic.Int64
	// idle counts how often the one who counts them found none for a while.
	idle atomic.Int64
	// wrap puts an encapsulating balancer's header in front of a packet to a server; nil: the balancer's kernel forwards.
	wrap func(packet []byte, to netip.Addr) []byte
	// syn is the last SYN that came to the balancer.
	syn atomic.Pointer[[]byte]
	// drop says that a packet to the VIP is lost at the balancer.
	drop func(packet []byte) bool
}

func newRig(t testing.TB, servers ...string) *rig {
	t.Helper()
	r := &rig{t: t, wire: heelstest.NewWire(t)}
	r.client = r.plug("client", testClient)
	r.lb = r.plug("lb", testBalancer)
	for i, s := range servers {
		r.servers = append(r.servers, r.plug(fmt.Sprintf("s%d", i+1), s))
	}
	r.watch()
	return r
}

func (r *rig) plug(name, address string) *host {
	r.t.Helper()
	return &host{Host: r.wire.Plug(name, address)}
}

// nat makes the balancer's kernel send connections to the VIP on to the first server, with its own address as source if masquerade.
func (r *rig) nat(port, to string, masquerade bool) {
	r.t.Helper()
	heelstest.Within(r.t, r.lb.NS, func() error { return heelstest.AddAddr("eth0", testVIP+"/32") })
	r.lb.Sysctl("ipv4/ip_forward", "1")
	r.lb.Sysctl("ipv4/conf/all/send_redirects", "0")
	r.lb.Sysctl("ipv4/conf/eth0/send_redirects", "0")
	rules := "table ip t {\n chain pre { type nat hook prerouting priority -100; ip daddr " + testVIP + " tcp dport " + port + " dnat to " + to + "; }\n"
	if masquerade {
		rules += " chain post { type nat hook postrouting priority 100; ct status dnat masquerade fully-random; }\n"
	}
	r.lb.Run(rules+"}\n", "nft", "-f", "-")
}

// guest is a host whose connections to the VIP go by way of the client, with its address.
func (r *rig) guest() *host {
	r.t.Helper()
	h := r.plug("guest", "10.77.4.1")
	heelstest.Within(r.t, h.NS, func() error {
		_, dst, _ := net.ParseCIDR(testVIP + "/32")
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(testClient)})
	})
	r.client.Sysctl("ipv4/ip_forward", "1")
	r.client.Sysctl("ipv4/conf/all/send_redirects", "0")
	r.client.Sysctl("ipv4/conf/eth0/send_redirects", "0")
	r.client.Run("table ip t {\n chain post { type nat hook postrouting priority 100; ip saddr 10.77.4.1 masquerade; }\n}\n", "nft", "-f", "-")
	return h
}

// The rig's addresses over IPv6, for tests that ask for them by nat6.
const (
	rig6VIP    = "fd77::100"
	rig6Server = "fd77:2::1"
	rig6Client = "fd77:3::1"
)

// nat6 gives hosts addresses of IPv6, and makes the balancer's kernel send connections to the VIP on to the first server.
func (r *rig) nat6() {
	r.t.Helper()
	for h, address := range map[*host]string{r.client: rig6Client + "/16", r.lb: "fd77:1::1/16", r.servers[0]: rig6Server + "/16"} {
		heelstest.Within(r.t, h.NS, func() error { return heelstest.AddAddr("eth0", address) })
	}
	heelstest.Within(r.t, r.lb.NS, func() error { return heelstest.AddAddr("eth0", rig6VIP+"/128") })
	r.lb.Sysctl("ipv6/conf/all/forwarding", "1")
	r.lb.Run("table ip6 t {\n chain pre { type nat hook prerouting priority -100; ip6 daddr "+rig6VIP+" tcp dport 80 dnat to ["+rig6Server+"]:80; }\n}\n", "nft", "-f", "-")
}

// encapsulate makes the balancer a program that wraps packets to the VIP for the first server.
func (r *rig) encapsulate(wrap func(packet []byte, to netip.Addr) []byte) {
	r.t.Helper()
	heelstest.Within(r.t, r.client.NS, func() error {
		_, dst, _ := net.ParseCIDR(testVIP + "/32")
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(testBalancer)})
	})
	for _, s := range r.servers {
		heelstest.Within(r.t, s.NS, func() error { return heelstest.AddAddr("lo", testVIP+"/32") })
		s.Sysctl("ipv4/conf/eth0/arp_ignore", "1")
	}
	r.wrap = wrap
}

// watch counts what passes the balancer's interface, and is the balancer where it encapsulates.
func (r *rig) watch() {
	r.t.Helper()
	var fd, raw int
	heelstest.Within(r.t, r.lb.NS, func() error {
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(kernel.Order(unix.ETH_P_ALL))); err != nil {
			return err
		}
		l, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: kernel.Order(unix.ETH_P_ALL), Ifindex: l.Index}); err != nil {
			return err
		}
		raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	timeout := unix.Timeval{Usec: 50000}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		r.t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	r.t.Cleanup(func() {
		close(done)
		<-ended
		unix.Close(fd)
		unix.Close(raw)
	})
	go func() {
		defer close(ended)
		r.forward(fd, raw, done)
	}()
}

// settled is how many segments came to the balancer, when for a moment no more do. Who counts them may be late: so it is he who has to find none, and
// twice, since the first moment may have begun before.
func (r *rig) settled() (n int64) {
	r.t.Helper()
	n, idle := r.in.Load(), r.idle.Load()
	eventually(r.t, "the balancer has rest", func() bool {
		if now := r.in.Load(); now != n {
			n, idle = now, r.idle.Load()
			return false
		}
		return r.idle.Load() >= idle+2
	})
	return n
}

func (r *rig) forward(fd, raw int, done chan struct{}) {
	buf := make([]byte, 70000)
	for {
		select {
		case <-done:
			return
		default:
		}
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			r.idle.Add(1)
		}
		if err != nil || n < 40 || buf[0]>>4 != 4 {
			continue
		}
		packet := buf[:n]
		link, _ := from.(*unix.SockaddrLinklayer)
		if link == nil || link.Protocol != kernel.Order(unix.ETH_P_IP) {
			continue
		}
		if link.Pkttype == unix.PACKET_OUTGOING {
			r.out.Add(1)
			continue
		}
		if link.Pkttype != unix.PACKET_HOST || packet[9] != unix.IPPROTO_TCP {
			continue
		}
		r.in.Add(1)
		if packet[33]&0x12 == 0x02 {
			syn := bytes.Clone(packet)
			r.syn.Store(&syn)
		}
		if r.wrap == nil || netip.AddrFrom4([4]byte(packet[16:20])).String() != testVIP || r.drop != nil && r.drop(packet) {
			continue
		}
		heelstest.FinishChecksum(packet)
		to := netip.MustParseAddr(testServer1)
		if err := unix.Sendto(raw, r.wrap(packet, to), 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
			r.t.Logf("balancer: %v", err)
		}
	}
}

// outer is an IPv4 header; the kernel fills in what is 0.
func outer(protocol byte, length int, to netip.Addr) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(h[2:], uint16(20+length))
	from, dst := netip.MustParseAddr(testBalancer).As4(), to.As4()
	copy(h[12:], from[:])
	copy(h[16:], dst[:])
	return h
}

func ipip(packet []byte, to netip.Addr) []byte {
	return append(outer(unix.IPPROTO_IPIP, len(packet), to), packet...)
}

func gue(port uint16, header ...byte) func([]byte, netip.Addr) []byte {
	return func(packet []byte, to netip.Addr) []byte {
		length := 8 + len(header) + len(packet)
		b := outer(unix.IPPROTO_UDP, length, to)
		b = binary.BigEndian.AppendUint16(b, 31000)
		b = binary.BigEndian.AppendUint16(b, port)
		b = binary.BigEndian.AppendUint16(b, uint16(length))
		b = append(b, 0, 0)
		return append(append(b, header...), packet...)
	}
}

// agent starts an agent on the host.
func (h *host) agent(text string) *Agent {
	h.T.Helper()
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+testCgroup+"\n"+text))
	if err != nil {
		h.T.Fatal(err)
	}
	return h.start(c)
}

func (h *host) start(c *settings.Config) *Agent {
	h.T.Helper()
	if h.pin == "" {
		h.pin = filepath.Join(heelstest.BPFFS(h.T), h.Name)
	}
	var a *Agent
	heelstest.Within(h.T, h.NS, func() (err error) {
		a, err = Start(c, h.pin, testCgroup)
		return err
	})
	h.T.Cleanup(func() {
		// Of several agents over the same pins the last has detached for all.
		if err := a.Detach(true); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.T.Error(err)
		}
		a.Close()
	})
	return a
}

// attached counts programs at the host's interface.
func (h *host) attached() (n int) {
	h.T.Helper()
	heelstest.Within(h.T, h.NS, func() error {
		device, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			q, err := link.QueryPrograms(link.QueryOptions{Target: device.Index, Attach: hook})
			if err != nil {
				return err
			}
			n += len(q.Programs)
		}
		return nil
	})
	return n
}

// listen serves connections on the host until the test ends.
func (h *host) listen(address string, serve func(net.Conn)) net.Listener {
	h.T.Helper()
	var l net.Listener
	heelstest.Within(h.T, h.NS, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	h.T.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l
}

func (h *host) dial(address string) (net.Conn, error) { return h.dialWithin(address, patience) }

// dialWithin is dial with a patience of the caller's, who may try again.
func (h *host) dialWithin(address string, patience time.Duration) (net.Conn, error) {
	var c net.Conn
	err := heelstest.Enter(h.NS, func() (err error) {
		c, err = net.DialTimeout("tcp", address, patience)
		return err
	})
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// dialFrom dials from a port that an earlier connection may have had.
func (h *host) dialFrom(port int, address string) (net.Conn, error) {
	reuse := func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		})
		return errors.Join(control, err)
	}
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{Port: port}, Control: reuse}
	var c net.Conn
	err := heelstest.Enter(h.NS, func() (err error) {
		c, err = d.Dial("tcp", address)
		return err
	})
	return c, err
}

// answerAddress answers with the address that the server sees, then echoes.
func answerAddress(c net.Conn) {
	defer c.Close()
	fmt.Fprintf(c, "%s\n", c.RemoteAddr())
	_, _ = io.Copy(c, c)
}

// post sends an IPv4 packet from the host as it is.
func (h *host) post(packet []byte) {
	h.T.Helper()
	heelstest.Within(h.T, h.NS, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])})
	})
}

// States of the kernel's list of sockets.
const (
	established = "01"
	synReceived = "03"
	finWait1    = "04"
	finWait2    = "05"
	closeWait   = "08"
	lastAck     = "09"
)

// halfOpen counts handshakes that the host has not finished.
func (h *host) halfOpen() int {
	h.T.Helper()
	return h.sockets(synReceived)
}

// sockets counts those of a state.
func (h *host) sockets(state string) (n int) {
	h.T.Helper()
	for _, name := range []string{"tcp", "tcp6"} {
		heelstest.Within(h.T, h.NS, func() error {
			text, err := os.ReadFile("/proc/thread-self/net/" + name)
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) > 3 && f[3] == state {
					n++
				}
			}
			return err
		})
	}
	return n
}

// eventually polls until what is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tests.Quiet(t, func() string {
		if is() {
			return ""
		}
		return "in vain: " + what
	})
}

func (a *Agent) count(t testing.TB, verdict string) uint64 {
	t.Helper()
	v, err := a.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	return v[verdict]
}

// destroy ends the server's socket of a connection without telling anybody, as a host does that crashes.
func destroy(client netip.AddrPort) error {
	local := &net.TCPAddr{IP: net.ParseIP(testServer1).To4(), Port: 80}
	// A reset that is sent by SOCK_DESTROY would tell the client: it must not get out.
	drop := exec.Command("nft", "-f", "-")
	drop.Stdin = strings.NewReader("table ip d {\n chain o { type filter hook output priority 0; tcp flags rst drop; }\n}\n")
	if out, err := drop.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	err := netlink.SocketDestroy(local, net.TCPAddrFromAddrPort(client))
	out, drained := exec.Command("nft", "delete", "table", "ip", "d").CombinedOutput()
	if drained != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", drained, out))
	}
	return err
}
