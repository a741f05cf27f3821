// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Kernel is how this kernel treats redirected bytes. Kernels are told apart by behaviour, not by version: changes are
// backported.
type Kernel struct {
	// IngressCharged: they are charged to the socket that receives them. Where they are not, a response's own length must bound
	// what lies in a client that does not read.
	IngressCharged bool
	// ReadsStamped: a receive call that finds them leaves its time in the socket. Where it does not, nothing tells a client that
	// pipelines from one that has read its answer.
	ReadsStamped bool
	// SocketReferences are those that an established socket in a socket map always has; whoever moves bytes to it holds RedirectReferences
	// beside them: 1, or 2 on some builds of 6.18; 0 where they could not be counted.
	SocketReferences, RedirectReferences uint32
}

// probe is the part of the kernel object that Probe loads.
type probe struct {
	Program *ebpf.Program `ebpf:"xlb_probe"`
	Waiting *ebpf.Program `ebpf:"xlb_probe_waiting"`
	Verdict *ebpf.Program `ebpf:"xlb_receive_verdict"`
	Sights  *ebpf.Map     `ebpf:"probe_sights"`
	Socks   *ebpf.Map     `ebpf:"probe_socks"`
}

// Probe finds out, on a connection of its own over loopback, whose bytes are redirected to their sender.
func Probe() (Kernel, error) {
	spec, err := readSpec()
	if err != nil {
		return Kernel{}, fmt.Errorf("probe redirect: %w", err)
	}
	var p probe
	if err := spec.LoadAndAssign(&p, nil); err != nil {
		return Kernel{}, fmt.Errorf("probe redirect: load programs: %w", err)
	}
	defer p.close()
	k, err := p.run()
	if err != nil {
		return Kernel{}, fmt.Errorf("probe redirect: %w", err)
	}
	return k, nil
}

// close lets go of what the kernel frees on its own.
func (p *probe) close() {
	p.Program.Close()
	p.Waiting.Close()
	p.Verdict.Close()
	p.Sights.Close()
	p.Socks.Close()
}

func (p *probe) run() (Kernel, error) {
	for _, a := range []link.RawAttachProgramOptions{
		{Target: p.Socks.FD(), Program: p.Program, Attach: ebpf.AttachSkMsgVerdict},
		{Target: p.Socks.FD(), Program: p.Verdict, Attach: ebpf.AttachSkSKBStreamVerdict},
	} {
		if err := link.RawAttachProgram(a); err != nil {
			return Kernel{}, fmt.Errorf("attach program: %w", err)
		}
	}
	conn, peer, err := connection()
	if err != nil {
		return Kernel{}, err
	}
	defer conn.Close()
	defer peer.Close()
	if err := control(conn, func(fd uintptr) error { return p.Socks.Put(uint32(0), uint64(fd)) }); err != nil {
		return Kernel{}, fmt.Errorf("add socket to map: %w", err)
	}
	k, err := p.redirect(conn)
	if err != nil {
		return k, err
	}
	k.RedirectReferences, err = p.references(conn, peer, k.SocketReferences)
	return k, err
}

// redirect looks at the socket's memory, its clock and its references, before and after the bytes are read.
func (p *probe) redirect(conn *net.TCPConn) (Kernel, error) {
	const size = 4096
	before, err := p.send(conn, size)
	if err != nil {
		return Kernel{}, err
	}
	memory, err := receiveMemory(conn)
	if err != nil {
		return Kernel{}, err
	}
	if _, err := io.ReadFull(conn, make([]byte, size)); err != nil {
		return Kernel{}, fmt.Errorf("receive: %w", err)
	}
	after, err := p.send(conn, 1)
	return Kernel{
		IngressCharged: memory > 0, ReadsStamped: after.Clock > before.Clock,
		// A packet that arrives holds one for a moment.
		SocketReferences: uint32(min(before.References, after.References)),
	}, err
}

// sight is struct probe_sight of bpf/selftest.bpf.c.
type sight struct{ Clock, References, End, Out uint64 }

// send returns what was seen of the socket at the send.
func (p *probe) send(conn *net.TCPConn, size int) (seen sight, err error) {
	if _, err := conn.Write(make([]byte, size)); err != nil {
		return seen, fmt.Errorf("send: %w", err)
	}
	if err := p.Sights.Lookup(uint32(0), &seen); err != nil {
		return seen, fmt.Errorf("read what was seen of the socket: %w", err)
	}
	return seen, nil
}

// little is as much room as a connection is given in bytes, and much what is sent there.
const little, much = 4 << 10, 1 << 20

// waitingPatience bounds how long a send may take to wait for room.
const waitingPatience = time.Second

// references counts those that a redirect holds: of a send that waits for room, since the peer does not read. Always has the socket so many. It
// resets the connection.
func (p *probe) references(conn, peer *net.TCPConn, always uint32) (uint32, error) {
	if err := errors.Join(p.Sights.Put(uint32(0), sight{Out: 1}), conn.SetWriteBuffer(little), peer.SetReadBuffer(little)); err != nil {
		return 0, fmt.Errorf("have bytes go out, with little room: %w", err)
	}
	sent, err := sendBlocking(conn)
	if err != nil {
		return 0, err
	}
	held, err := p.waiting()
	// The send ends.
	err = errors.Join(err, peer.SetLinger(0), peer.Close())
	<-sent
	return max(held, always) - always, err
}

// waiting counts references while the send waits; 0: it did not wait. A packet that arrives holds one for a moment.
func (p *probe) waiting() (least uint32, err error) {
	const looks = 8
	seen := 0
	for end := time.Now().Add(waitingPatience); seen < looks && time.Now().Before(end); {
		held, err := p.Waiting.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
		if err != nil {
			return 0, fmt.Errorf("look at a socket whose send waits: %w", err)
		}
		if held == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		if seen++; least == 0 || held < least {
			least = held
		}
	}
	return least, nil
}

// sendBlocking sends more than there is room for, by one call that returns when the connection is reset.
func sendBlocking(conn *net.TCPConn) (<-chan struct{}, error) {
	f, err := conn.File()
	if err != nil {
		return nil, fmt.Errorf("duplicate a socket: %w", err)
	}
	fd := int(f.Fd())
	if err := unix.SetNonblock(fd, false); err != nil {
		f.Close()
		return nil, fmt.Errorf("have a send block: %w", err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer f.Close()
		// It fails, when the connection is reset.
		_, _ = unix.Write(fd, make([]byte, much))
	}()
	return sent, nil
}

// connection returns both ends of an established connection over loopback.
func connection() (conn, peer *net.TCPConn, err error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, fmt.Errorf("listen on loopback: %w", err)
	}
	defer l.Close()
	if conn, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr)); err != nil {
		return nil, nil, fmt.Errorf("connect over loopback: %w", err)
	}
	if peer, err = l.AcceptTCP(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("accept over loopback: %w", err), conn.Close())
	}
	return conn, peer, nil
}

// receiveMemory is SK_MEMINFO_RMEM_ALLOC, the first of SO_MEMINFO's values: memory charged for unread bytes.
func receiveMemory(c *net.TCPConn) (uint32, error) {
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	err := control(c, func(fd uintptr) error {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return fmt.Errorf("read SO_MEMINFO: %w", errno)
		}
		return nil
	})
	return info[0], err
}

func control(c *net.TCPConn, f func(fd uintptr) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}
