// SPDX-License-Identifier: Apache-2.0

package sockdiag

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
)

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
	await.Quiet(t, func() string {
		got, err := HolderOf(local, remote)
		must(t, err)
		if got != want {
			return fmt.Sprintf("holder: got %d, want %d", got, want)
		}
		return ""
	})
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
			await.Quiet(t, func() string {
				n, err := Handshakes(at)
				must(t, err)
				if n != want {
					return fmt.Sprintf("handshakes: got %d, want %d", n, want)
				}
				return ""
			})
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
