// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// dialFrom connects to an endpoint from another network namespace, with the options and the errors of net.Dialer. The socket alone is opened there: a
// thread that waited there for the connection would serve nothing else.
func (d *Dialer) dialFrom(ctx context.Context, from workload.ID, to netip.AddrPort) (*net.TCPConn, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	tcp, err := d.connectFrom(ctx, from, to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return tcp, nil
}

func (d *Dialer) connectFrom(ctx context.Context, from workload.ID, to netip.AddrPort) (*net.TCPConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, client, err := d.openIn(from, to.Addr())
	if err != nil {
		return nil, err
	}
	if err := d.beginConnect(fd, client, to); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// It is watched from now on: before connect a socket looks as if it had ended.
	file := os.NewFile(uintptr(fd), "connection to "+to.String())
	conn, err := connected(ctx, file)
	// The connection has a descriptor of its own.
	_ = file.Close()
	return conn, err
}

// openIn opens a socket in the network namespace of a workload, which has these ports for it.
func (d *Dialer) openIn(from workload.ID, to netip.Addr) (fd int, p ports, err error) {
	within := d.within(from)
	if within == nil {
		return 0, ports{}, slowpath.ErrWorkloadLeft
	}
	family := unix.AF_INET6
	if to.Is4() {
		family = unix.AF_INET
	}
	err = within(func() (err error) {
		p = clientPorts()
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return os.NewSyscallError("socket", err)
	})
	if err != nil && d.within(from) == nil {
		return 0, ports{}, fmt.Errorf("%w: %w", slowpath.ErrWorkloadLeft, err)
	}
	return fd, p, err
}

// withinWorkload runs code in the network namespace of a workload; nil: it has left.
func (d *Dialer) withinWorkload(id workload.ID) func(do func() error) error {
	if d.cfg.Workload == nil {
		return nil
	}
	w := d.cfg.Workload(id)
	if w == nil {
		return nil
	}
	return w.Within
}

// beginConnect has a socket connect from one of the ports, and does not wait.
func (d *Dialer) beginConnect(fd int, from ports, to netip.AddrPort) error {
	if err := d.prepare(fd); err != nil {
		return err
	}
	var sa unix.Sockaddr = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	if to.Addr().Is4() {
		sa = &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	err := from.connect(fd, sa)
	if err == nil || errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return os.NewSyscallError("connect", err)
}

// connected waits until a socket has connected, as long as the context lasts.
func connected(ctx context.Context, file *os.File) (*net.TCPConn, error) {
	err := upstream.AwaitConnect(ctx, file, time.Time{})
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return nil, os.NewSyscallError("connect", errno) // as net.Dialer has it
	}
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is not a TCP connection", file.Name()), conn.Close())
	}
	return tcp, nil
}
