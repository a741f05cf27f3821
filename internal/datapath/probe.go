// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// IngressCharged finds out, on two connections of its own over loopback, whether the kernel charges redirected bytes to the
// socket that receives them. Where it does not, a response's own length must bound what lies in a client that does not read.
// Kernels are told apart by behaviour, not by version: the change was backported.
func IngressCharged() (bool, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	if err != nil {
		return false, fmt.Errorf("probe redirect: create socket map: %w", err)
	}
	defer m.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.SkMsg,
		License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R2, m.FD()),
			asm.Mov.Imm(asm.R3, 1),
			asm.Mov.Imm(asm.R4, unix.BPF_F_INGRESS),
			asm.FnMsgRedirectMap.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return false, fmt.Errorf("probe redirect: load program: %w", err)
	}
	defer prog.Close()
	err = link.RawAttachProgram(link.RawAttachProgramOptions{Target: m.FD(), Program: prog, Attach: ebpf.AttachSkMsgVerdict})
	if err != nil {
		return false, fmt.Errorf("probe redirect: attach program: %w", err)
	}
	charged, err := redirectOnce(m)
	if err != nil {
		return false, fmt.Errorf("probe redirect: %w", err)
	}
	return charged, nil
}

// redirectOnce sends on one connection and looks at another, where the bytes must arrive.
func redirectOnce(m *ebpf.Map) (charged bool, err error) {
	from, closeFrom, err := connection()
	if err != nil {
		return false, err
	}
	defer closeFrom()
	to, closeTo, err := connection()
	if err != nil {
		return false, err
	}
	defer closeTo()
	if err := errors.Join(join(m, 0, from), join(m, 1, to)); err != nil {
		return false, err
	}
	if _, err := from.Write(make([]byte, 4096)); err != nil {
		return false, fmt.Errorf("send: %w", err)
	}
	bytes, err := receiveMemory(to)
	return bytes > 0, err
}

// connection returns one end of an established connection over loopback.
func connection() (*net.TCPConn, func(), error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, fmt.Errorf("listen on loopback: %w", err)
	}
	defer l.Close()
	client, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, nil, fmt.Errorf("connect over loopback: %w", err)
	}
	server, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("accept over loopback: %w", err), client.Close())
	}
	return client, func() { client.Close(); server.Close() }, nil
}

func join(m *ebpf.Map, index uint32, c *net.TCPConn) error {
	return control(c, func(fd uintptr) error { return m.Put(index, uint64(fd)) })
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
