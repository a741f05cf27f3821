// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// connectHabits are ways to open a connection, and to ask about it.
var connectHabits = habitKind{
	"connect without blocking":             connectNonblocking,
	"connect twice":                        connectTwice,
	"connect, disconnect, connect there":   connectElsewhere,
	"connect, disconnect, connect again":   connectAgain,
	"connect again with an answer unread":  connectAgainUnread,
	"connect after connecting to nobody":   connectAfterRefusal,
	"bind to an address":                   connectBound,
	"bind to a port":                       connectBoundToPort,
	"SO_REUSEADDR, SO_REUSEPORT":           connectReuse,
	"IP_BIND_ADDRESS_NO_PORT":              connectLatePort,
	"getpeername":                          connectNames,
	"getsockname":                          connectOwnName,
	"options that tell of the socket":      connectOptions,
	"TCP_INFO":                             connectInfo,
	"TCP_INFO, bytes":                      connectInfoBytes,
	"TCP_FASTOPEN_CONNECT":                 connectFastOpen,
	"MPTCP":                                connectMPTCP,
	"IPv4 address on an IPv6 socket":       connectMapped,
	"kTLS without keys":                    connectTLS,
	"TCP_USER_TIMEOUT, keepalive, SO_MARK": connectTuned,
	"SO_RCVBUF, SO_SNDBUF":                 connectBuffers,
}

func sockaddr4(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

func socket4(flags int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	return fd, os.NewSyscallError("socket", err)
}

// prepared connects a socket after prepare has done something to it, and asks twice.
func (h *habit) prepared(prepare func(fd int) error) error {
	fd, err := socket4(0)
	if err != nil {
		return err
	}
	if err := prepare(fd); err != nil {
		return err
	}
	return h.connectAndAsk(fd, h.to)
}

func (h *habit) connectAndAsk(fd int, to netip.AddrPort) error {
	if err := unix.Connect(fd, sockaddr4(to)); err != nil {
		return os.NewSyscallError("connect", err)
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	return h.ask(fd, plainQuestion)
}

func connectNonblocking(h *habit) error {
	fd, err := socket4(unix.SOCK_NONBLOCK)
	if err != nil {
		return err
	}
	h.noteCall("connect", unix.Connect(fd, sockaddr4(h.to)))
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if _, err := retryN(func() (int, error) { return unix.Poll(fds, -1) }); err != nil {
		return os.NewSyscallError("poll", err)
	}
	h.note("poll: writable %v, %s", fds[0].Revents&unix.POLLOUT != 0, eventNames(uint32(fds[0].Revents)))
	failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	h.note("SO_ERROR: %d, %s", failed, describe(err))
	// Once more finds out that it is connected, and then that it was.
	h.noteCall("connect again", unix.Connect(fd, sockaddr4(h.to)))
	h.noteCall("connect once more", unix.Connect(fd, sockaddr4(h.to)))
	if err := unix.SetNonblock(fd, false); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return h.ask(fd, plainQuestion)
}

func connectTwice(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	h.noteCall("connect again", unix.Connect(fd, sockaddr4(h.to)))
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	h.noteCall("connect to another", unix.Connect(fd, sockaddr4(h.other)))
	return h.ask(fd, plainQuestion)
}

// disconnect dissolves a connection as connect(2) describes: an address of family AF_UNSPEC.
func disconnect(fd int) error {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(pointerTo(&unix.RawSockaddr{Family: unix.AF_UNSPEC})), unix.SizeofSockaddrInet4)
	if errno != 0 {
		return os.NewSyscallError("disconnect", errno)
	}
	return nil
}

// connectElsewhere uses a socket again for a server that is not behind the service.
func connectElsewhere(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	if err := disconnect(fd); err != nil {
		return err
	}
	if err := unix.Connect(fd, sockaddr4(h.other)); err != nil {
		return os.NewSyscallError("connect", err)
	}
	peer, err := peerOf(fd)
	h.note("the peer is the other: %v, %s", peer == h.other.String(), describe(err))
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	return h.ask(fd, plainQuestion)
}

func connectAgain(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	if err := disconnect(fd); err != nil {
		return err
	}
	return h.connectAndAsk(fd, h.to)
}

// connectAgainUnread disconnects when an answer has come, and before it is read.
func connectAgainUnread(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	if _, err := receive(fd, 1, unix.MSG_PEEK); err != nil {
		return err
	}
	if err := disconnect(fd); err != nil {
		return err
	}
	h.noteCall("connect again", unix.Connect(fd, sockaddr4(h.to)))
	return h.askAnew()
}

func connectAfterRefusal(h *habit) error {
	return h.prepared(func(fd int) error {
		h.noteCall("connect to nobody", unix.Connect(fd, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}}))
		return nil
	})
}

// connectBound binds to the address that leads to the other server.
func connectBound(h *habit) error {
	probe, err := connectRaw(h.other)
	if err != nil {
		return err
	}
	defer unix.Close(probe)
	own, err := unix.Getsockname(probe)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	return h.prepared(func(fd int) error {
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Addr: own.(*unix.SockaddrInet4).Addr}))
	})
}

// connectBoundToPort takes a free port and checks that the connection has it.
func connectBoundToPort(h *habit) error {
	var bound, used uint16
	fd, err := socket4(0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if bound, err = ownPort(fd); err != nil {
		return err
	}
	if err := h.connectAndAsk(fd, h.to); err != nil {
		return err
	}
	if used, err = ownPort(fd); err != nil {
		return err
	}
	h.note("the port is the one it was bound to: %v", bound == used && bound != 0)
	return nil
}

func ownPort(fd int) (uint16, error) {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return uint16(own.(*unix.SockaddrInet4).Port), nil
}

func connectReuse(h *habit) error {
	return h.prepared(func(fd int) error {
		h.noteCall("SO_REUSEADDR", setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
		h.noteCall("SO_REUSEPORT", setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		return nil
	})
}

func connectLatePort(h *habit) error {
	return h.prepared(func(fd int) error {
		if err := setInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return err
		}
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{}))
	})
}

func connectNames(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	for range 2 {
		peer, err := peerOf(fd)
		h.note("it is the address of connect: %v, %s", peer == h.to.String(), describe(err))
		if err := h.ask(fd, plainQuestion); err != nil {
			return err
		}
	}
	return nil
}

// connectOwnName notes which address of its host the client has.
func connectOwnName(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	h.note("%v", netip.AddrFrom4(own.(*unix.SockaddrInet4).Addr))
	return h.ask(fd, plainQuestion)
}

func connectOptions(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	options := func(when string) {
		for _, o := range []struct {
			name   string
			option int
		}{
			{"SO_TYPE", unix.SO_TYPE}, {"SO_PROTOCOL", unix.SO_PROTOCOL}, {"SO_DOMAIN", unix.SO_DOMAIN},
			{"SO_ACCEPTCONN", unix.SO_ACCEPTCONN}, {"SO_ERROR", unix.SO_ERROR}, {"SO_KEEPALIVE", unix.SO_KEEPALIVE},
			{"SO_RCVLOWAT", unix.SO_RCVLOWAT}, {"SO_REUSEADDR", unix.SO_REUSEADDR}, {"SO_ZEROCOPY", unix.SO_ZEROCOPY},
		} {
			value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.option)
			h.note("%s, %s: %d, %s", when, o.name, value, describe(err))
		}
	}
	options("before")
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	options("after")
	return nil
}

func connectInfo(h *habit) error {
	info, err := h.infoOfAnswered()
	if err != nil {
		return err
	}
	h.note("state %d, retransmits %d, lost %d", info.State, info.Retransmits, info.Lost)
	return nil
}

// infoOfAnswered asks for TCP_INFO behind an answer.
func (h *habit) infoOfAnswered() (*unix.TCPInfo, error) {
	fd, err := h.dial()
	if err != nil {
		return nil, err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return nil, err
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return info, os.NewSyscallError("getsockopt", err)
}

// connectInfoBytes asks what the connection has carried.
func connectInfoBytes(h *habit) error {
	info, err := h.infoOfAnswered()
	if err != nil {
		return err
	}
	h.note("bytes of the answer are counted: %v", info.Bytes_received > 0)
	h.note("bytes of the request are counted: %v", info.Bytes_sent > 0)
	return nil
}

func connectFastOpen(h *habit) error {
	return h.prepared(func(fd int) error { return setInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1) })
}

func connectMPTCP(h *habit) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	return h.connectAndAsk(fd, h.to)
}

func connectMapped(h *habit) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(h.to.Port()), Addr: h.to.Addr().As16()}); err != nil {
		return os.NewSyscallError("connect", err)
	}
	peer, err := peerOf(fd)
	h.note("it is the address of connect: %v, %s", peer == netip.AddrPortFrom(netip.AddrFrom16(h.to.Addr().As16()), h.to.Port()).String(), describe(err))
	return h.ask(fd, plainQuestion)
}

// connectTLS gives the socket to kTLS, and sends plain bytes: without keys that is what it does.
func connectTLS(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	h.noteCall("TCP_ULP", unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "tls"))
	return h.ask(fd, plainQuestion)
}

func connectTuned(h *habit) error {
	return h.prepared(func(fd int) error {
		h.noteCall("TCP_USER_TIMEOUT", setInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000))
		h.noteCall("SO_KEEPALIVE", setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
		h.noteCall("TCP_KEEPIDLE", setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10))
		h.noteCall("SO_PRIORITY", setInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, 3))
		h.noteCall("TCP_QUICKACK", setInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1))
		h.noteCall("SO_MARK", setInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 7))
		return nil
	})
}

// connectBuffers reads back what it set.
func connectBuffers(h *habit) error {
	fd, err := socket4(0)
	if err != nil {
		return err
	}
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		if err := setInt(fd, unix.SOL_SOCKET, option, 32<<10); err != nil {
			return err
		}
	}
	if err := h.connectAndAsk(fd, h.to); err != nil {
		return err
	}
	received, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	h.note("SO_RCVBUF reads back doubled: %v, %s", received == 64<<10, describe(err))
	sent, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	h.note("SO_SNDBUF reads back doubled: %v, %s", sent == 64<<10, describe(err))
	if err := setInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 32<<10); err != nil {
		return err
	}
	sent, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	h.note("SO_SNDBUF, set again, reads back doubled: %v, %s", sent == 64<<10, describe(err))
	return nil
}
