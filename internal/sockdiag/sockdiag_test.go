// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 5 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen opens a listening socket at an address of this host.
func listen(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	var c net.ListenConfig
	c.SetMultipathTCP(false) // its sockets take no filter
	l, err := c.Listen(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func addressOf(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// connect opens a connection, and returns both ends.
func connect(t *testing.T, l net.Listener) (client, server *net.TCPConn) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func mustBe(t *testing.T, local, remote netip.AddrPort, want Holder) {
	t.Helper()
	var got Holder
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var err error
		got, err = HolderOf(local, remote)
		must(t, err)
		if got == want {
			return
		}
	}
	t.Fatalf("holder: got %d, want %d", got, want)
}

func TestHolderOfASocket(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := listen(t, address)
		client, server := connect(t, l)
		local, remote := addressOf(client.LocalAddr()), addressOf(server.LocalAddr())
		mustBe(t, local, remote, Process)
		must(t, client.CloseWrite())
		_, err := server.Read(make([]byte, 1)) // the end is there
		if err == nil {
			t.Fatal("bytes that nobody has sent")
		}
		mustBe(t, local, remote, Process)
		must(t, client.Close())
		mustBe(t, local, remote, Kernel)
		mustBe(t, remote, local, Process)
	}
}

func TestSocketsThatThereAreNot(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	listens := addressOf(l.Addr())
	mustBe(t, netip.MustParseAddrPort("192.0.2.1:1"), listens, Unknown)
	mustBe(t, listens, netip.MustParseAddrPort("192.0.2.1:1"), Unknown)
}

// onlySYN is a socket filter that drops all but the segments by which connections begin.
var onlySYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0x02, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)},
	{Code: unix.BPF_RET | unix.BPF_K},
}

func TestHandshakesAreThoseUnderWay(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := listen(t, address)
		raw, err := l.SyscallConn()
		must(t, err)
		at := addressOf(l.Addr())
		count := func(want int) {
			t.Helper()
			var n int
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if n, err = Handshakes(at); err != nil || n == want {
					break
				}
			}
			if err != nil || n != want {
				t.Fatalf("handshakes: got %d, %v, want %d", n, err, want)
			}
		}
		connect(t, l)
		count(0)
		must(t, raw.Control(func(fd uintptr) {
			program := unix.SockFprog{Len: uint16(len(onlySYN)), Filter: &onlySYN[0]}
			must(t, unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
		}))
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer c.Close()
		count(1)
		must(t, raw.Control(func(fd uintptr) {
			must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0))
		}))
		_, err = c.Write([]byte("x"))
		must(t, err)
		count(0)
	}
}
