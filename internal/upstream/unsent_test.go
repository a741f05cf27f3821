// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What a listener accepts has its bound. Without one it takes 3.9 MB over loopback, and more for a client that reads fast at first.
func TestAConnectionHoldsLittleForAPeerThatReadsNothing(t *testing.T) {
	const most = 4 * maxUnsent
	client, server := accepted(t, BoundUnsent)
	if held := heldBy(t, server); held < maxUnsent || held > most {
		t.Errorf("an accepted connection took %d bytes that its client does not read, want %d to %d", held, maxUnsent, most)
	}
	raw, err := client.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { err = BoundUnsent(int(fd)) }))
	must(t, err)
	if held := heldBy(t, client); held < maxUnsent || held > most {
		t.Errorf("a connection took %d bytes that its server does not read, want %d to %d", held, maxUnsent, most)
	}
}

// accepted are both ends of a connection over loopback, to a listener that was prepared.
func accepted(t *testing.T, prepare func(fd int) error) (client, server *net.TCPConn) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	must(t, prepare(fd))
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, unix.Listen(fd, 1))
	listener, err := net.FileListener(file)
	must(t, err)
	defer listener.Close()
	c, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// heldBy is how many bytes a connection takes until a send would wait.
func heldBy(t *testing.T, conn *net.TCPConn) (held int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	chunk := make([]byte, 64<<10)
	must(t, raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Write(int(fd), chunk)
			if errors.Is(err, unix.EAGAIN) {
				return
			}
			must(t, err)
			held += n
		}
	}))
	return held
}
