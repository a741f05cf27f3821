// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Place is where processes run: a cgroup, and perhaps a network namespace.
type Place struct {
	cgroup *cgroup
	// ns is closed (netns.None) for the namespace of the test itself.
	ns netns.NsHandle
	// Address reaches the place from the other host; loopback on one host.
	Address netip.Addr
}

// SameHost returns a place in the network namespace of the test.
func SameHost(t testing.TB) *Place {
	t.Helper()
	return &Place{cgroup: newCgroup(t), ns: netns.None(), Address: netip.MustParseAddr("127.0.0.1")}
}

// Isolated returns a place in a network namespace that has only a loopback.
func Isolated(t testing.TB) *Place {
	t.Helper()
	return apart(t, newCgroup(t))
}

// Apart is a place in the same cgroup that is in a network namespace of its own, with only a loopback: as a pod, for a daemon of its host.
func (p *Place) Apart(t testing.TB) *Place {
	t.Helper()
	return apart(t, p.cgroup)
}

func apart(t testing.TB, in *cgroup) *Place {
	t.Helper()
	p := &Place{cgroup: in, ns: newNamespace(t), Address: netip.MustParseAddr("127.0.0.1")}
	t.Cleanup(func() { p.letGo(t) })
	p.inside(t, func() error { return up("lo") })
	return p
}

// Below is the same place in a cgroup below its own, which is made, and each one between that is not there. A pod of a container runtime has such a name.
func (p *Place) Below(t testing.TB, name string) *Place {
	t.Helper()
	below := *p
	for part := range strings.SplitSeq(name, "/") {
		path := filepath.Join(below.cgroup.path, part)
		if _, err := os.Stat(path); err == nil {
			below.cgroup = &cgroup{path: path}
			continue
		}
		below.cgroup = newCgroupAt(t, path)
	}
	return &below
}

// letGo closes the test's descriptor of the namespace. Nothing can be done in the place from then on.
func (p *Place) letGo(t testing.TB) {
	t.Helper()
	if !p.ns.IsOpen() {
		return
	}
	if err := p.ns.Close(); err != nil {
		t.Error(err)
	}
}

// Addresses of the two hosts, on the wire between them.
const (
	clientHostAddress = "10.99.0.1"
	serverHostAddress = "10.99.0.2"
)

// TwoHosts returns two places with a network between them and no route to
// anywhere else. Only the first is meant to be given to XLB.
func TwoHosts(t testing.TB) (clients, servers *Place) {
	t.Helper()
	clients, servers = Isolated(t), Isolated(t)
	clients.inside(t, func() error {
		wire := netlink.NewVeth(netlink.LinkAttrs{Name: "wire"})
		wire.PeerName, wire.PeerNamespace = "wire", netlink.NsFd(servers.ns)
		return netlink.LinkAdd(wire)
	})
	clients.plug(t, clientHostAddress)
	servers.plug(t, serverHostAddress)
	return clients, servers
}

// plug gives the host's end of the wire an address.
func (p *Place) plug(t testing.TB, address string) {
	t.Helper()
	p.Address = netip.MustParseAddr(address)
	p.inside(t, func() error { return errors.Join(addAddress("wire", address+"/24"), up("wire")) })
}

// AddAddress gives the loopback of an isolated place one more address.
func (p *Place) AddAddress(t testing.TB, address string) {
	t.Helper()
	p.inside(t, func() error { return addAddress("lo", address) })
}

// Sysctl sets a value of net/ in an isolated place.
func (p *Place) Sysctl(t testing.TB, name, value string) {
	t.Helper()
	// The kernel shows the namespace of the thread that opens the file.
	p.inside(t, func() error {
		return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0)
	})
}

// Netstat returns the counters of TCP that are not in its standard (TcpExt), of the place's network namespace.
func (p *Place) Netstat(t testing.TB) map[string]int64 {
	t.Helper()
	var text []byte
	p.inside(t, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	})
	counters := map[string]int64{}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "TcpExt:" {
			continue
		}
		// A line of names, and one of values.
		if names == nil {
			names = fields
			continue
		}
		for i := 1; i < len(fields); i++ {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				t.Fatalf("counter %s: %v", names[i], err)
			}
			counters[names[i]] = n
		}
	}
	return counters
}

// timeWait is the state of a connection in /proc/net/tcp that has closed, and keeps its port for a
// while.
const timeWait = "06"

// Waiting counts the connections to an address that keep a port of the place, of IPv4.
func (p *Place) Waiting(t testing.TB, to netip.AddrPort) (n int) {
	t.Helper()
	var text []byte
	p.inside(t, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/tcp")
		return err
	})
	address := to.Addr().As4()
	remote := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(address[:]), to.Port())
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[2] == remote && f[3] == timeWait {
			n++
		}
	}
	return n
}

// newNamespace makes a namespace without a name: it goes with its last user. The caller closes it.
func newNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	made, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace (the tests need root): %v", err)
	}
	if err := netns.Set(own); err != nil {
		// The thread is lost to the rest of the process.
		panic(fmt.Sprintf("return to the network namespace: %v", err))
	}
	return made
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set link %s up: %w", name, err)
	}
	return nil
}

func addAddress(name, address string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	// Duplicate address detection would keep an IPv6 address back for a while.
	a.Flags = syscall.IFA_F_NODAD
	if a.IP.To4() != nil {
		a.Flags = 0
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		return fmt.Errorf("add %s to %s: %w", address, name, err)
	}
	return nil
}

// inside runs do in the place's network namespace; do must not start
// goroutines that matter.
func (p *Place) inside(t testing.TB, do func() error) {
	t.Helper()
	if err := p.enter(do); err != nil {
		t.Fatal(err)
	}
}

func (p *Place) enter(do func() error) error {
	if !p.ns.IsOpen() {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return err
	}
	defer own.Close()
	if err := netns.Set(p.ns); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	defer func() {
		if err := netns.Set(own); err != nil {
			panic(fmt.Sprintf("return to the network namespace: %v", err))
		}
	}()
	return do()
}

// start starts a command inside the place.
func (p *Place) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD = true
	cmd.SysProcAttr.CgroupFD = int(p.cgroup.dir.Fd())
	return p.enter(cmd.Start)
}

// Cgroup is the directory to give to XLB.
func (p *Place) Cgroup() string { return p.cgroup.path }

// Attached names the programs that hang in the place's cgroup.
func (p *Place) Attached(t testing.TB) []string {
	t.Helper()
	return p.cgroup.attached(t)
}

// Ports that FreePort gives are below those that the kernel gives to connections. Each test process has a block of its own: until somebody listens
// at a port that is given, another process would find it free.
const (
	firstPort  = 10_000
	portBlock  = 2_000
	portBlocks = 11
)

// ports counts those that have been looked at.
var (
	ports     atomic.Uint32
	portsFrom = sync.OnceValues(func() (uint32, error) {
		block, err := claim(portBlocks, func(block uint32) netip.Addr { return netip.AddrFrom4([4]byte{127, 79, 0, byte(block)}) })
		return firstPort + block*portBlock, err
	})
)

// FreePort returns a TCP port of the place that nobody listens on, and that no other test is given. It is below those that the kernel gives to
// connections: it stays free, and no connection to it can meet itself.
func (p *Place) FreePort(t testing.TB) (port uint16) {
	t.Helper()
	from, err := portsFrom()
	if err != nil {
		t.Fatalf("claim ports: %v", err)
	}
	p.inside(t, func() error {
		for {
			port = uint16(from + ports.Add(1)%portBlock)
			l, err := net.Listen("tcp", fmt.Sprintf("0.0.0.0:%d", port))
			if errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			if err != nil {
				return err
			}
			return l.Close()
		}
	})
	return port
}

// HTTPClient is a client of the test process, which is not balanced.
func (p *Place) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
			// With one literal address the dial stays on this thread.
			err = p.enter(func() error {
				c, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return c, err
		},
	}}
}

// Listener is a socket of the place's network, but not of its cgroup: whoever is handed it serves as if that was elsewhere.
func (p *Place) Listener(t testing.TB) (file *os.File, address netip.AddrPort) {
	t.Helper()
	p.inside(t, func() error {
		l, err := net.Listen("tcp", p.anyPort())
		if err != nil {
			return err
		}
		defer l.Close()
		address = l.Addr().(*net.TCPAddr).AddrPort()
		file, err = l.(*net.TCPListener).File()
		return err
	})
	t.Cleanup(func() { file.Close() })
	return file, address
}
