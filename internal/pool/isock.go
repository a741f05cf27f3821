// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
)

// sendBuffer lets the largest request of the fast path (request_limit of bpf/lib/config.h, and its
// head) go out in one send: the kernel makes twice as much of it, of which each buffer of the queue
// takes some 900 bytes beside its data. Towards an endpoint whose window was never larger than 1 KiB
// that is 2.6 bytes for each byte of the request. It is a limit, not an allocation.
const sendBuffer = 1 << 20

// unsentLimit is how many bytes of a connection may wait to be sent (TCP_NOTSENT_LOWAT): as many as the
// send buffer holds. Otherwise net.ipv4.tcp_notsent_lowat counts, and a send that a program redirects
// to a connection with more than that waiting takes a part, of which the program does not learn.
const unsentLimit = 1<<31 - 1

// receiveBuffer bounds what an endpoint may send ahead of a client that reads slowly, once a response spills.
const receiveBuffer = 512 << 10

// atOnce is how long an i-sock that never served must have lasted not to count as a failed connect: it is an idle one then. A server that closes
// those sooner than soon is spared others until a request asks for one.
const (
	atOnce = 100 * time.Millisecond
	soon   = time.Second
)

// isock is an open connection to an endpoint.
type isock struct {
	pool *Pool
	slot uint32
	sub  *subpool
	// position among the subpool's. Guarded by Pool.mu.
	position int
	fd       int
	cookie   uint64
	peer     maps.PeerKey
	remote   bool
	opened   time.Time
	// unwanted: it is the pool that closes it, while the endpoint serves on. Guarded by Pool.mu.
	unwanted bool
	// busy is set while a goroutine needs the socket or its slot, and hurries it. Guarded by Pool.mu.
	busy context.CancelFunc
	// late ends the forwarding of a response whose deadline was not known when it was spilled; nil when nobody does that. Guarded by Pool.mu.
	late context.CancelFunc
	// lent ends the use of the socket by whoever sends the rest of lentTo's request on it; nil when nobody does. returned is closed
	// when that has ended. Guarded by Pool.mu.
	lent     context.CancelFunc
	lentTo   maps.Lease
	returned chan struct{}
	// failed: the connection has ended in an error, which the look that found it has taken from the socket: the next one
	// would see a clean end. Guarded by Pool.mu.
	failed bool
	ending upstream.Ending
	// refused: the endpoint has not taken the rest of a request, while the response was forwarded. Guarded by Pool.mu.
	refused bool
	// read is how many bytes were read from it, of all responses that have spilled. Guarded by Pool.mu.
	read uint64
	// finished: the endpoint has ended its side of a tunnel. Guarded by Pool.mu.
	finished bool
	// progress is what the sweep last saw of the lease and its bytes, and since when. Guarded by Pool.mu.
	progress progress
	wear     wear
}

// dialer opens connections to endpoints.
type dialer struct {
	isn *isnGenerator
	// congestion control of the connections; "" is the machine's.
	congestion string
}

// announce is told of a connection before its handshake: where it comes from, and the number of the
// first byte that it will carry.
type announce func(local netip.AddrPort, first uint32) error

// connect opens a connection from a known source port of the workload's network namespace: the kernel must be able to recognise its far end before the
// handshake is over, so the port is bound, and announced, first.
func (d *dialer) connect(ctx context.Context, from *origin, to netip.AddrPort, timeout time.Duration, announce announce) (int, error) {
	source, err := sourceAddress(from, to)
	if err != nil {
		return -1, err
	}
	err = unix.EADDRNOTAVAIL
	for i := 0; i < portTries && errors.Is(err, unix.EADDRNOTAVAIL); i++ {
		var fd int
		if fd, err = from.socket(family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_NONBLOCK); err != nil {
			return -1, fmt.Errorf("open socket: %w", err)
		}
		// With a port that another i-sock has there is one connection to each endpoint.
		if err = d.dial(ctx, fd, source, from.ports, to, timeout, announce); err == nil {
			return fd, nil
		}
		unix.Close(fd)
	}
	return -1, err
}

func (d *dialer) dial(
	ctx context.Context, fd int, source netip.Addr, ports portRange, to netip.AddrPort, timeout time.Duration, announce announce,
) error {
	if err := setOptions(fd, d.congestion); err != nil {
		return err
	}
	if err := bind(fd, source, ports); err != nil {
		return fmt.Errorf("bind to %s: %w", source, err)
	}
	local, err := localAddress(fd)
	if err != nil {
		return err
	}
	syn := d.isn.syn(local, to)
	if err := setISN(fd, syn); err != nil {
		return err
	}
	// Behind the number: with that the kernel forgets it.
	if err := share(fd); err != nil {
		return err
	}
	if err := announce(local, syn+1); err != nil {
		return err
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		return fmt.Errorf("connect to %s: %w", to, err)
	}
	return awaitConnect(ctx, fd, to, timeout)
}

// awaitConnect returns when the connection is established. A duplicate of the descriptor waits, since Go's poller keeps what it has watched.
func awaitConnect(ctx context.Context, fd int, to netip.AddrPort, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", to, err)
	}
	file := os.NewFile(uintptr(duplicate), "connection to "+to.String())
	defer file.Close()
	if err := upstream.AwaitConnect(ctx, file, deadline); err != nil {
		return fmt.Errorf("connect to %s: %w", to, err)
	}
	return nil
}

func setOptions(fd int, congestion string) error {
	options := []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		// Beyond net.core.wmem_max and rmem_max, for which CAP_NET_ADMIN is needed, as BPF is.
		{unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentLimit},
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("set socket option %d of level %d: %w", o.name, o.level, err)
		}
	}
	// Its close is a reset, however the daemon ends: what a server has not read of a request is of no use to it without the rest,
	// and would keep the socket, and with it the programs, until the server reads. A reset also leaves no port in TIME_WAIT.
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("make the close a reset: %w", err)
	}
	// A blocking client's send waits on the i-sock when that is full: never longer than this.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return fmt.Errorf("set send timeout: %w", err)
	}
	return upstream.SetCongestionControl(fd, congestion)
}

// sourceAddress is the address that the workload's kernel would connect from. No packet is sent.
func sourceAddress(from *origin, to netip.AddrPort) (netip.Addr, error) {
	fd, err := from.socket(family(to.Addr()), unix.SOCK_DGRAM)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(to)); err != nil {
		return netip.Addr{}, fmt.Errorf("find route to %s: %w", to.Addr(), err)
	}
	local, err := localAddress(fd)
	return local.Addr(), err
}

func localAddress(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read local address: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("read local address: unexpected family %T", sa)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// peerKey names the connection as the endpoint's side sees it. The namespace tells apart only loopback addresses: others are
// the same wherever they are seen.
func peerKey(local, remote netip.AddrPort, first uint32, netns uint64) maps.PeerKey {
	k := maps.PeerKey{
		Local:      remote.Addr().As16(),
		LocalPort:  remote.Port(),
		Remote:     local.Addr().As16(),
		RemotePort: local.Port(),
		Sequence:   first,
	}
	if remote.Addr().IsLoopback() {
		k.Netns = netns
	}
	return k
}
