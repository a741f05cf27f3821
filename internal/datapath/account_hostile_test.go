// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Protocols of a socket.
const (
	singlePath = 0
	multipath  = unix.IPPROTO_MPTCP
)

// begin has a new socket connect, and does not wait. The caller closes it.
func (a *accounted) begin(t *testing.T, protocol int, prepare func(fd int) error) (fd int, err error) {
	t.Helper()
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	must(t, err)
	must(t, prepare(fd))
	if err := a.reach(fd); !errors.Is(err, unix.EINPROGRESS) {
		return fd, err
	}
	return fd, nil
}

func (a *accounted) reach(fd int) error {
	return unix.Connect(fd, &unix.SockaddrInet4{Addr: a.service.Addr().As4(), Port: int(a.service.Port())})
}

// deafen has a socket drop all that comes, as the other end's part of the handshake.
func deafen(fd int) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET}})
}

func undeafen(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) }

// deferring has the first send connect.
func deferring(fd int) error {
	return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_NO_COOKIE, 1), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1))
}

// Sockets that wait with their handshakes, and end them all at once, are as many as those that do not wait.
func TestConnectionsCountBeforeTheirHandshakeEnds(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	fast, slow := Options{FastPath: true, Kernel: kernel, RefuseWhenDown: true}, Options{RefuseWhenDown: true}
	for _, tt := range []struct {
		name     string
		options  Options
		protocol int
		wait     func(fd int) error
		want     uint32
	}{
		{"deaf", fast, singlePath, deafen, 4},
		{"deaf, without the fast path", slow, singlePath, deafen, 4},
		{"deferred", fast, singlePath, deferring, 4},
		// Nothing would tell of a connect that fails.
		{"deferred, without the fast path", slow, singlePath, deferring, 0},
		{"deferred, Multipath TCP", fast, multipath, deferring, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.protocol == multipath {
				needMultipath(t)
			}
			a := newAccounted(t, "127.80.77.34:8080", tt.options, allHooks)
			a.as(1)
			a.bound(8)
			const asked = 16
			var waiting []int
			for range asked {
				fd, err := a.begin(t, tt.protocol, tt.wait)
				if err == nil {
					waiting = append(waiting, fd)
				} else if !errors.Is(err, unix.ECONNREFUSED) {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Close(fd) })
			}
			if got := uint32(len(waiting)); got != tt.want {
				t.Errorf("%d of %d connects wait for their handshake, want %d: the others are refused", got, asked, tt.want)
			}
			a.must(t, tt.want, tt.want)
			if _, refused := a.taken(1); refused != uint64(asked-tt.want) {
				t.Errorf("%d were refused, want %d", refused, asked-tt.want)
			}
		})
	}
}

// A connect that fails counts until the socket closes, or connects again; of Multipath TCP, or without a release program, until it fails.
func TestAConnectThatFailsCountsNoMoreWhenItsSocketCloses(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	for _, tt := range []struct {
		name     string
		options  Options
		protocol int
	}{
		{"fast path", Options{FastPath: true, Kernel: kernel}, singlePath},
		{"without the fast path", Options{}, singlePath},
		{"Multipath TCP", Options{FastPath: true, Kernel: kernel}, multipath},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.protocol == multipath {
				needMultipath(t)
			}
			a := newAccounted(t, "127.80.77.35:8080", tt.options, allHooks)
			a.as(1)
			// Two connections cannot have the same four numbers.
			var from unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
			bound := func(fd int) error {
				return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, from))
			}
			first, err := a.begin(t, tt.protocol, bound)
			must(t, err)
			defer unix.Close(first)
			from, err = unix.Getsockname(first)
			must(t, err)
			second, err := a.begin(t, tt.protocol, bound)
			if !errors.Is(err, unix.EADDRNOTAVAIL) {
				t.Errorf("the second connect: %v, want %v", err, unix.EADDRNOTAVAIL)
			}
			// Again, as the first try of it has failed.
			if err := a.reach(second); !errors.Is(err, unix.EADDRNOTAVAIL) {
				t.Errorf("the second connect again: %v, want %v", err, unix.EADDRNOTAVAIL)
			}
			must(t, unix.Close(second))
			a.mustCome(t, 1, 1)
		})
	}
}

// Whatever clients do, nothing counts that is not there.
func TestNothingCountsWhenAllHaveEnded(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	for _, tt := range []struct {
		name    string
		options Options
	}{{"fast path", Options{FastPath: true, Kernel: kernel}}, {"without the fast path", Options{}}} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccounted(t, "127.80.77.36:8080", tt.options, allHooks)
			a.as(1)
			a.bound(1000)
			a.acceptAndEnd(t)
			const workers, actions = 8, 10000
			var all sync.WaitGroup
			for range workers {
				all.Go(func() { a.misbehave(t, actions) })
			}
			all.Wait()
			a.mustCome(t, 0, 0)
		})
	}
}

// acceptAndEnd ends what is accepted, in one way or another.
func (a *accounted) acceptAndEnd(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		l := a.listeners["daemon"].(*net.TCPListener)
		for ctx.Err() == nil {
			_ = l.SetDeadline(time.Now().Add(20 * time.Millisecond))
			c, err := l.Accept()
			if err != nil {
				continue
			}
			if rand.IntN(2) == 0 {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// misbehave does things at random to some sockets, and closes them.
func (a *accounted) misbehave(t *testing.T, actions int) {
	var fds []int
	begun := 0
	for range actions {
		if len(fds) == 0 || len(fds) < 20 && rand.IntN(3) == 0 {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, []int{singlePath, singlePath, multipath}[rand.IntN(3)])
			if err == nil {
				fds = append(fds, fd)
			}
			continue
		}
		i := rand.IntN(len(fds))
		fd := fds[i]
		switch rand.IntN(14) {
		case 0, 1, 2, 3:
			if err := a.reach(fd); err == nil || errors.Is(err, unix.EINPROGRESS) {
				begun++
			}
		case 4:
			_ = deafen(fd)
		case 5:
			_ = undeafen(fd)
		case 6:
			_ = deferring(fd)
		case 7:
			_, _ = unix.Write(fd, []byte("x"))
		case 8:
			none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
			_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
		case 9:
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		case 10:
			_ = unix.Shutdown(fd, rand.IntN(3))
		case 11:
			_ = unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrInet4{Addr: a.service.Addr().As4(), Port: int(a.service.Port())})
		case 12:
			if rand.IntN(8) == 0 {
				_ = unix.Listen(fd, 1)
			}
		case 13:
			other, err := unix.Dup(fd)
			if err == nil {
				fds = append(fds, other)
			}
			_ = unix.Close(fd)
			fds = append(fds[:i], fds[i+1:]...)
		}
	}
	if begun == 0 {
		t.Error("no connection was begun")
	}
	for _, fd := range fds {
		_ = undeafen(fd)
		_ = unix.Close(fd)
	}
}
