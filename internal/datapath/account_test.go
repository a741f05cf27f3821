// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// accounted is a service address to which the clients of this process's network namespace connect as those of an account.
type accounted struct {
	*door
	t *testing.T
	d *Datapath
}

func newAccounted(t *testing.T, service string, o Options, attached func(*Datapath) []attachment) *accounted {
	t.Helper()
	a := &accounted{door: newDoor(t, service), t: t}
	a.d = a.daemon(t, "daemon", o)
	setLife(a.d, 0, false)
	for number := range uint32(3) {
		must(t, a.d.Sockets.Accounts.Put(number, maps.Account{}))
	}
	enterCgroupWith(t, attached(a.d))
	return a
}

// allHooks are those of a daemon.
func allHooks(d *Datapath) []attachment { return d.cgroupAttachments() }

// as has what connects from here on count in an account.
func (a *accounted) as(number uint32) {
	a.t.Helper()
	ports, ok, err := a.d.Sockets.Anchors.Lookup(netnsCookie(a.t))
	must(a.t, err)
	if !ok {
		a.t.Fatal("the network namespace is not announced")
	}
	ports.Account = number
	must(a.t, a.d.Sockets.Anchors.Put(netnsCookie(a.t), ports))
}

// connect opens a connection, and says who took it; "" if it was refused.
func (a *accounted) connect() (net.Conn, string) {
	a.t.Helper()
	c, err := net.Dial("tcp4", a.service.String())
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, ""
	}
	must(a.t, err)
	a.t.Cleanup(func() { c.Close() })
	return c, a.names[c.RemoteAddr().String()]
}

// taken is how many connections count in an account, refused how many it was refused.
func (a *accounted) taken(number uint32) (taken uint32, refused uint64) {
	a.t.Helper()
	is, _, err := a.d.Sockets.Accounts.Lookup(number)
	must(a.t, err)
	return is.Connections, is.Refused
}

func (a *accounted) total() uint32 { return atomic.LoadUint32(&a.d.Shared.Control.Connections) }

// count complains unless account 1 has so many connections, and all have so many together.
func (a *accounted) count(account, all uint32) (complaint string) {
	if n, _ := a.taken(1); n != account || a.total() != all {
		return fmt.Sprintf("%d connections count in the account and %d in all, want %d and %d", n, a.total(), account, all)
	}
	return ""
}

func (a *accounted) must(t *testing.T, account, all uint32) {
	t.Helper()
	if complaint := a.count(account, all); complaint != "" {
		t.Error(complaint)
	}
}

// mustCome waits for it: a connection may end behind the call that ends it.
func (a *accounted) mustCome(t *testing.T, account, all uint32) {
	t.Helper()
	await.Quiet(t, func() string { return a.count(account, all) })
}

func (a *accounted) bound(most uint32) { atomic.StoreUint32(&a.d.Shared.Control.MaxConnections, most) }

// withoutPeernames are all hooks but those by which a client sees where it meant to go: then it sees where its connection leads.
func withoutPeernames(d *Datapath) (list []attachment) {
	for _, a := range d.cgroupAttachments() {
		if a.program != d.programs.Getpeername4 && a.program != d.programs.Getpeername6 {
			list = append(list, a)
		}
	}
	return list
}

// An account has as many connections as are left free: the others go where they would without the daemon, or are refused where its operator wants that.
func TestAnAccountHasAsManyConnectionsAsAreLeftFree(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	for _, tt := range []struct {
		name    string
		options Options
		over    string
	}{
		{"not balanced", Options{FastPath: true, Kernel: kernel}, "stranger"},
		{"refused", Options{FastPath: true, Kernel: kernel, RefuseWhenDown: true}, ""},
		{"without the fast path", Options{}, "stranger"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccounted(t, "127.80.77.31:8080", tt.options, withoutPeernames)
			a.bound(8)
			take := func(number uint32, want ...string) (open []net.Conn) {
				t.Helper()
				a.as(number)
				for i, w := range want {
					c, got := a.connect()
					if got != w {
						t.Errorf("connection %d of account %d is taken by %q, want %q", i, number, got, w)
					}
					open = append(open, c)
				}
				return open
			}
			// 4 of 8, then 2 of the 4 that are left, then 1 of 2.
			first := take(1, "daemon", "daemon", "daemon", "daemon", tt.over, tt.over)
			take(2, "daemon", "daemon", tt.over)
			take(0, "daemon", tt.over)
			for number, want := range []struct {
				taken   uint32
				refused uint64
			}{{1, 1}, {4, 2}, {2, 1}} {
				if taken, refused := a.taken(uint32(number)); taken != want.taken || refused != want.refused {
					t.Errorf("account %d has %d connections and was refused %d, want %d and %d", number, taken, refused, want.taken, want.refused)
				}
			}
			// What closes is free for those that have less.
			must(t, first[0].Close())
			must(t, first[1].Close())
			a.mustCome(t, 2, 5)
			take(0, "daemon", tt.over)
			take(1, tt.over)
			a.bound(0)
			take(1, "daemon", "daemon", "daemon")
		})
	}
}

// However a connection ends, it counts no more, and only then.
func TestConnectionsCountUntilTheyEnd(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	a := newAccounted(t, "127.80.77.32:8080", Options{FastPath: true, Kernel: kernel}, allHooks)
	a.as(1)
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, c *net.TCPConn)
	}{
		{"closed", func(t *testing.T, c *net.TCPConn) { must(t, c.Close()) }},
		{"reset", func(t *testing.T, c *net.TCPConn) { must(t, c.SetLinger(0)); must(t, c.Close()) }},
		{"disconnected, and closed later", func(t *testing.T, c *net.TCPConn) {
			disconnect(t, c)
			a.mustCome(t, 0, 0)
			must(t, c.Close())
		}},
		{"disconnected, and connected again", func(t *testing.T, c *net.TCPConn) {
			disconnect(t, c)
			onSocket(t, c, func(fd int) {
				err := unix.Connect(fd, &unix.SockaddrInet4{Addr: a.service.Addr().As4(), Port: int(a.service.Port())})
				if err != nil && !errors.Is(err, unix.EINPROGRESS) {
					t.Fatal(err)
				}
			})
			a.mustCome(t, 1, 1)
			must(t, c.Close())
		}},
		{"closed by one of two that have the socket, then by the other", func(t *testing.T, c *net.TCPConn) {
			other, err := c.File()
			must(t, err)
			must(t, c.Close())
			a.must(t, 1, 1)
			must(t, other.Close())
		}},
		{"of an account that is no more", func(t *testing.T, c *net.TCPConn) {
			must(t, a.d.Sockets.Accounts.Delete(1))
			must(t, c.Close())
			must(t, a.d.Sockets.Accounts.Put(1, maps.Account{}))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp4", a.service.String())
			must(t, err)
			a.must(t, 1, 1)
			tt.end(t, c.(*net.TCPConn))
			a.mustCome(t, 0, 0)
		})
	}
}

// The kernel opens the sockets of a Multipath TCP connection itself, and no release program runs when they close.
func TestConnectionsOfMultipathTCPCountUntilTheyEnd(t *testing.T) {
	needMultipath(t)
	kernel, err := Probe()
	must(t, err)
	a := newAccounted(t, "127.80.77.33:8080", Options{FastPath: true, Kernel: kernel}, allHooks)
	a.as(1)
	var d net.Dialer
	d.SetMultipathTCP(true)
	c, err := d.DialContext(context.Background(), "tcp4", a.service.String())
	must(t, err)
	a.must(t, 1, 1)
	must(t, c.Close())
	// Without the other end's close the kernel waits for it, and so does the count.
	end, err := a.listeners["daemon"].Accept()
	must(t, err)
	must(t, end.Close())
	a.mustCome(t, 0, 0)
}

func needMultipath(t *testing.T) {
	t.Helper()
	err := os.WriteFile("/proc/sys/net/mptcp/enabled", []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the kernel has no Multipath TCP (CONFIG_MPTCP)")
	}
	must(t, err)
}

func onSocket(t *testing.T, c *net.TCPConn, f func(fd int)) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { f(int(fd)) }))
}

func disconnect(t *testing.T, c *net.TCPConn) {
	t.Helper()
	onSocket(t, c, func(fd int) {
		none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
		if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none)); errno != 0 {
			t.Fatal(errno)
		}
	})
}
