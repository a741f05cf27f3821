// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

// pod is the workload of the tests, and left one that has left.
const pod, left workload.ID = 1, 2

// podNetwork is a dialer of a daemon that serves a network namespace besides its own.
type podNetwork struct {
	*Dialer
	t         *testing.T
	namespace *netns.Namespace
}

func newPodNetwork(t *testing.T, c Config) *podNetwork {
	t.Helper()
	p := &podNetwork{Dialer: New(c), t: t, namespace: newNamespace(t)}
	p.within = func(id workload.ID) func(do func() error) error {
		if id != pod {
			return nil
		}
		return p.namespace.Within
	}
	return p
}

// newNamespace has a loopback interface that is up.
func newNamespace(t *testing.T) *netns.Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root, to make a network namespace")
	}
	var namespace *netns.Namespace
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			namespace, err = netns.Own()
		}
		done <- errors.Join(err, loopbackUp())
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(namespace.Close)
	return namespace
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// inPod runs something in the namespace.
func (p *podNetwork) inPod(do func() error) {
	p.t.Helper()
	if err := p.namespace.Within(do); err != nil {
		p.t.Fatal(err)
	}
}

// serve has a server in the namespace, which sends "pod" to all that connect, and waits for their end.
func (p *podNetwork) serve(at string) netip.AddrPort {
	p.t.Helper()
	var l net.Listener
	p.inPod(func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	})
	p.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, "pod")
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// full is a port of the namespace at which connections wait for ever.
func (p *podNetwork) full() netip.AddrPort {
	p.t.Helper()
	var fd int
	p.inPod(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return errors.Join(err, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0))
	})
	p.t.Cleanup(func() { unix.Close(fd) })
	sa, err := unix.Getsockname(fd)
	if err != nil {
		p.t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
	conn, err := p.Dial(p.t.Context(), pod, to) // the one that the queue has room for
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return to
}

// option reads one of a connection's socket.
func option(t *testing.T, conn net.Conn, read func(fd int) (int, error)) (value int) {
	t.Helper()
	raw, err := conn.(*countedConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { value, failed = read(int(fd)) })
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return value
}

// options are what sockets of all namespaces have alike.
func options(t *testing.T, conn net.Conn) string {
	t.Helper()
	all := ""
	for _, o := range []struct {
		name          string
		level, option int
	}{
		{"nodelay", unix.IPPROTO_TCP, unix.TCP_NODELAY}, {"keepalive", unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{"idle", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {"interval", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {"count", unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
		{"receive buffer", unix.SOL_SOCKET, unix.SO_RCVBUF},
	} {
		all += fmt.Sprintf("%s %d, ", o.name, option(t, conn, func(fd int) (int, error) { return unix.GetsockoptInt(fd, o.level, o.option) }))
	}
	flags := option(t, conn, func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0) })
	descriptor := option(t, conn, func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0) })
	raw, err := conn.(*countedConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var congestion string
	_ = raw.Control(func(fd uintptr) {
		congestion, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return all + fmt.Sprintf("flags %#x, %#x, congestion control %q, %v", flags, descriptor, congestion, err)
}

func TestClientsOfAnotherNamespaceAreConnectedFromThere(t *testing.T) {
	p := newPodNetwork(t, Config{Congestion: "reno"})
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	ofHost, err := p.Dial(t.Context(), workload.Host, own.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer ofHost.Close()
	want := options(t, ofHost)
	cookie, err := p.namespace.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	at := p.serve("127.0.0.1:0")
	for _, to := range []netip.AddrPort{at, p.serve("[::1]:0"), netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port())} {
		conn, err := p.Dial(t.Context(), pod, to)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		defer conn.Close()
		said := make([]byte, 3)
		if _, err := io.ReadFull(conn, said); err != nil || string(said) != "pod" {
			t.Errorf("%s: read %q, %v", to, said, err)
		}
		got := option(t, conn, func(fd int) (int, error) {
			c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
			return int(c), err
		})
		if uint64(got) != cookie {
			t.Errorf("%s: the socket is in namespace %d, want %d", to, got, cookie)
		}
		if got := conn.RemoteAddr().(*net.TCPAddr).AddrPort(); got != netip.AddrPortFrom(to.Addr().Unmap(), to.Port()) {
			t.Errorf("%s: remote address %s", to, got)
		}
		if got := options(t, conn); got != want {
			t.Errorf("%s: options\n%s, want those of the host's,\n%s", to, got, want)
		}
		if n := p.Open(to); n != 1 {
			t.Errorf("%s: %d connections are counted", to, n)
		}
	}
}

func TestRefusalsInAnotherNamespaceAreAsTheHosts(t *testing.T) {
	p := newPodNetwork(t, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	_, ofHost := p.Dial(t.Context(), workload.Host, to)
	_, err = p.Dial(t.Context(), pod, to)
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, unix.ECONNREFUSED) || op.Timeout() || upstream.IsShortage(err) || err.Error() != ofHost.Error() {
		t.Errorf("got %#v, %v; want %v", err, err, ofHost)
	}
	// No route leads to another network from there.
	if _, err := p.Dial(t.Context(), pod, netip.MustParseAddrPort("192.0.2.1:80")); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("without a route: got %v", err)
	}
	if len(p.conns) > 0 {
		t.Errorf("counted as open: %v", p.conns)
	}
}

func TestWaitForAConnectionInAnotherNamespaceEnds(t *testing.T) {
	p := newPodNetwork(t, Config{})
	to := p.full()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Dial(ctx, pod, to)
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at its deadline: got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = p.Dial(ctx, pod, to)
	if ne, ok := errors.AsType[net.Error](err); !ok || ne.Timeout() || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
	if _, err = p.Dial(ctx, pod, to); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled before: got %v", err)
	}
}

func TestNothingIsConnectedFromANamespaceThatHasLeft(t *testing.T) {
	p := newPodNetwork(t, Config{})
	to := p.serve("127.0.0.1:0")
	if _, err := p.Dial(t.Context(), left, to); !errors.Is(err, slowpath.ErrWorkloadLeft) {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{}).Dial(t.Context(), pod, to); !errors.Is(err, slowpath.ErrWorkloadLeft) {
		t.Errorf("of a daemon that serves the host alone: got %v", err)
	}
	// It leaves after it was found.
	known := true
	p.within = func(workload.ID) func(func() error) error {
		if !known {
			return nil
		}
		known = false
		return func(func() error) error { return os.ErrClosed }
	}
	if _, err := p.Dial(t.Context(), pod, to); !errors.Is(err, slowpath.ErrWorkloadLeft) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("meanwhile: got %v", err)
	}
}

func TestShortagesInAnotherNamespaceAreKnown(t *testing.T) {
	p := newPodNetwork(t, Config{})
	p.within = func(workload.ID) func(func() error) error {
		return func(func() error) error { return os.NewSyscallError("socket", unix.EMFILE) }
	}
	if _, err := p.Dial(t.Context(), pod, netip.MustParseAddrPort("127.0.0.1:80")); !upstream.IsShortage(err) || upstream.IsPortShortage(err) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionToItselfIsRefused(t *testing.T) {
	p := newPodNetwork(t, Config{})
	p.inPod(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40000"), 0) })
	for _, to := range []string{"127.0.0.1:40000", "[::1]:40000"} {
		if conn, err := p.Dial(t.Context(), pod, netip.MustParseAddrPort(to)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: got %v, %v", to, conn, err)
		}
	}
}

// Neither descriptors nor threads nor goroutines are left of connections, made or refused.
func TestConnectionsFromAnotherNamespaceLeaveNothingBehind(t *testing.T) {
	p := newPodNetwork(t, Config{})
	to, full := p.serve("127.0.0.1:0"), p.full()
	refusing := netip.AddrPortFrom(to.Addr(), 1)
	connect := func() {
		for range 100 {
			conn, err := p.Dial(t.Context(), pod, to)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Dial(t.Context(), pod, refusing); err == nil {
				t.Fatal("connected to a port that has no server")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := p.Dial(ctx, pod, full); err == nil {
			t.Fatal("connected where connections wait")
		}
	}
	connect()
	const slack = 5 // of threads, which the runtime starts when it likes
	descriptors, tasks, goroutines := tcptest.Descriptors(t), tcptest.Threads(t), runtime.NumGoroutine()
	connect()
	await.Quiet(t, func() string {
		d, n, g := tcptest.Descriptors(t), tcptest.Threads(t), runtime.NumGoroutine()
		if d <= descriptors && n <= tasks+slack && g <= goroutines {
			return ""
		}
		return fmt.Sprintf("descriptors, threads, goroutines: %d, %d, %d; before: %d, %d, %d", d, n, g, descriptors, tasks, goroutines)
	})
	if n := p.Open(to); n != 0 {
		t.Errorf("%d connections are counted as open", n)
	}
}
