// SPDX-License-Identifier: Apache-2.0

// Package sockdiag asks the kernel about TCP sockets of this network namespace, those of other processes as well (sock_diag(7)).
// It asks for one socket by its ends, where netlink.SocketGet() has the kernel walk through all of them, for each client that leaves.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Holder is who has a socket.
type Holder uint8

const (
	// Unknown: there is no such socket in this network namespace.
	Unknown Holder = iota
	// Process: some process has a descriptor of it.
	Process
	// Kernel: all that had one have closed it. What the kernel still does is to end the connection.
	Kernel
)

// HolderOf tells who has the socket of a connection whose own address is local and whose peer's is remote.
func HolderOf(local, remote netip.AddrPort) (Holder, error) {
	holder := Unknown
	err := ask(newRequest(local, remote), 0, func(m *message) {
		switch {
		case m.state == stateListen: // no connection has these addresses: the listening socket was found by its own
		case m.inode != 0:
			holder = Process
		default:
			holder = Kernel
		}
	})
	if errors.Is(err, unix.ENOENT) {
		return Unknown, nil
	}
	return holder, err
}

// Handshakes counts the connections to a port of this host that have begun, and wait for the client's acknowledgement. Those at "::" are of IPv6 alone.
func Handshakes(at netip.AddrPort) (n int, err error) {
	r := newRequest(at, netip.AddrPort{})
	r.states = 1 << stateSynReceived
	err = ask(r, unix.NLM_F_DUMP, func(*message) { n++ })
	return n, err
}

// States of sockets (include/net/tcp_states.h).
const (
	stateSynReceived = 3
	stateListen      = 10
)

// socketID is struct inet_diag_sockid.
type socketID struct {
	sport, dport [2]byte
	src, dst     [16]byte
	device       uint32
	cookie       [2]uint32
}

// request is struct inet_diag_req_v2, behind its header.
type request struct {
	header   unix.NlMsghdr
	family   uint8
	protocol uint8
	ext, pad uint8
	states   uint32
	id       socketID
}

// message is struct inet_diag_msg.
type message struct {
	family, state, timer, retrans uint8
	id                            socketID
	expires, rqueue, wqueue       uint32
	uid, inode                    uint32
}

// newRequest asks for the socket between two addresses. An IPv4 address in IPv6 form is one of IPv4.
func newRequest(local, remote netip.AddrPort) *request {
	r := &request{family: unix.AF_INET6, protocol: unix.IPPROTO_TCP, states: ^uint32(0)}
	if local.Addr().Unmap().Is4() {
		r.family = unix.AF_INET
	}
	binary.BigEndian.PutUint16(r.id.sport[:], local.Port())
	binary.BigEndian.PutUint16(r.id.dport[:], remote.Port())
	copy(r.id.src[:], local.Addr().Unmap().AsSlice())
	copy(r.id.dst[:], remote.Addr().Unmap().AsSlice())
	r.id.cookie = [2]uint32{^uint32(0), ^uint32(0)} // INET_DIAG_NOCOOKIE: any socket
	return r
}

// answerTime bounds the wait for the kernel, in seconds: it answers before the request has returned.
const answerTime = 1

// ask calls found for each socket that the kernel knows.
func ask(r *request, flags uint16, found func(*message)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("ask for sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTime}); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	r.header = unix.NlMsghdr{Len: uint32(unsafe.Sizeof(*r)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | flags}
	sent := unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
	if err := unix.Sendto(fd, sent, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask for sockets: %w", err)
	}
	b := make([]byte, 32<<10) // as much as the kernel puts into one answer
	for {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("ask for sockets: %w", err)
		}
		done, err := parse(b[:n], found)
		if done || err != nil || flags&unix.NLM_F_DUMP == 0 {
			return err
		}
	}
}

// parse reads the messages of one answer, and reports whether it is the last one.
func parse(b []byte, found func(*message)) (done bool, err error) {
	const head = unix.SizeofNlMsghdr
	for len(b) >= head {
		h := (*unix.NlMsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < head || size > len(b) {
			return true, errShort
		}
		body := b[head:size]
		switch h.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return true, errShort
			}
			return true, fmt.Errorf("ask for sockets: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
		case unix.SOCK_DIAG_BY_FAMILY:
			if len(body) < int(unsafe.Sizeof(message{})) {
				return true, errShort
			}
			found((*message)(unsafe.Pointer(&body[0])))
		}
		b = b[min(len(b), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
	}
	return false, nil
}

var errShort = errors.New("ask for sockets: the kernel's answer is too short")
