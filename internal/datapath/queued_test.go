// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/test/await"
)

// A sender whose program has run, and who waits for the client's lock, must be seen: what the daemon sends would overtake its bytes.
func TestSenderThatWaitsForTheClientIsSeen(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	d, err := Load(Options{FastPath: true, Kernel: kernel})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	client, server := tcpSocket(t), tcpSocket(t)
	cookie, err := unix.GetsockoptUint64(client, unix.SOL_SOCKET, unix.SO_COOKIE)
	must(t, err)
	must(t, d.objects.Psocks.Put(cookie, uint64(client)))
	redirectSends(t, server, d.objects.Psocks, cookie)
	requireQueued(t, d.Sockets, cookie, false)

	// The client's send holds its lock until its memory is there.
	memory := newFaultingPage(t)
	sends := make(chan error, 2)
	go func() { sends <- write(client, memory.page[:10]) }()
	memory.awaitFault(t)
	go func() { sends <- write(server, []byte("hello")) }()
	requireQueued(t, d.Sockets, cookie, true)
	must(t, bpfmap.SynchronizeRCU())
	requireQueued(t, d.Sockets, cookie, true)

	memory.resolve(t)
	for range cap(sends) {
		must(t, <-sends)
	}
	requireQueued(t, d.Sockets, cookie, false)
	got := make([]byte, 10)
	if n, err := unix.Read(client, got); err != nil || string(got[:n]) != "hello" {
		t.Errorf("the client received %q, %v", got[:max(n, 0)], err)
	}
}

// requireQueued waits for an answer: a packet that arrives holds a reference for a moment, and a goroutine takes one to begin.
func requireQueued(t *testing.T, s *maps.Sockets, cookie uint64, want bool) {
	t.Helper()
	await.Quiet(t, func() string {
		got, err := s.Queued(cookie)
		must(t, err)
		if got == want {
			return ""
		}
		return fmt.Sprintf("bytes are on their way to the client: not %t", want)
	})
}

// tcpSocket is one end of a connection over loopback.
func tcpSocket(t *testing.T) int {
	t.Helper()
	f, _ := tcpFile(t)
	return int(f.Fd())
}

// tcpFile is one end of a connection over loopback, and the other one.
func tcpFile(t *testing.T) (*os.File, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	must(t, err)
	accepted, err := l.Accept()
	must(t, err)
	f, err := conn.(*net.TCPConn).File()
	must(t, err)
	must(t, conn.Close())
	// A blocking descriptor, as most applications have.
	must(t, unix.SetNonblock(int(f.Fd()), false))
	t.Cleanup(func() {
		f.Close()
		accepted.Close()
	})
	return f, accepted
}

func write(fd int, b []byte) error {
	_, err := unix.Write(fd, b)
	return os.NewSyscallError("write", err)
}

// redirectSends makes what is sent on a socket arrive at another one, as the response program does.
func redirectSends(t *testing.T, from int, to *ebpf.Map, key uint64) {
	t.Helper()
	const redirectHash, ingress = asm.FnMsgRedirectHash, 1
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SkMsg, License: "GPL", Instructions: asm.Instructions{
		asm.LoadImm(asm.R2, int64(key), asm.DWord),
		asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
		asm.LoadMapPtr(asm.R2, to.FD()),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, ingress),
		redirectHash.Call(),
		asm.Return(),
	}})
	must(t, err)
	t.Cleanup(func() { program.Close() })
	senders, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	t.Cleanup(func() { senders.Close() })
	attach := link.RawAttachProgramOptions{Target: senders.FD(), Program: program, Attach: ebpf.AttachSkMsgVerdict}
	must(t, link.RawAttachProgram(attach))
	must(t, senders.Put(uint32(0), uint32(from)))
}

// faultingPage is memory that is not there until the test says so (userfaultfd(2)).
type faultingPage struct {
	fd   int
	page []byte
}

// Requests and structures of linux/userfaultfd.h.
const (
	uffdAPI      = 0xc018aa3f
	uffdRegister = 0xc020aa00
	uffdZeropage = 0xc020aa04
	uffdVersion  = 0xaa
	uffdMissing  = 1
)

func newFaultingPage(t *testing.T) *faultingPage {
	t.Helper()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno == unix.ENOSYS {
		t.Skip("this kernel was built without userfaultfd")
	}
	if errno != 0 {
		t.Fatalf("userfaultfd: %v", errno)
	}
	p := &faultingPage{fd: int(fd), page: page}
	t.Cleanup(func() {
		unix.Close(p.fd)
		_ = unix.Munmap(page)
	})
	p.control(t, uffdAPI, []uint64{uffdVersion, 0, 0})
	p.control(t, uffdRegister, []uint64{p.address(), uint64(len(page)), uffdMissing, 0})
	return p
}

func (p *faultingPage) address() uint64 { return uint64(uintptr(unsafe.Pointer(&p.page[0]))) }

func (p *faultingPage) control(t *testing.T, request uintptr, argument []uint64) {
	t.Helper()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), request, uintptr(unsafe.Pointer(&argument[0])))
	if errno != 0 {
		t.Fatalf("userfaultfd: request %#x: %v", request, errno)
	}
}

// awaitFault returns when somebody waits for the memory.
func (p *faultingPage) awaitFault(t *testing.T) {
	t.Helper()
	message := make([]byte, 32)
	if n, err := unix.Read(p.fd, message); err != nil || n != len(message) || binary.NativeEndian.Uint64(message[16:]) != p.address() {
		t.Fatalf("userfaultfd: read %d bytes, %v", n, err)
	}
}

// resolve puts the memory there.
func (p *faultingPage) resolve(t *testing.T) {
	t.Helper()
	p.control(t, uffdZeropage, []uint64{p.address(), uint64(len(p.page)), 0, 0})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
