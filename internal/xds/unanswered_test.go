// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A server that is gone without a word is found in a minute, whether something waits to be acknowledged or not: the kernel does the one by a
// limit, the other by probes.
func TestConnectionsFindAServerThatIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dialTCP(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		var getErr error
		err := raw.Control(func(fd uintptr) { value, getErr = unix.GetsockoptInt(int(fd), level, name) })
		if err != nil || getErr != nil {
			t.Fatal(err, getErr)
		}
		return value
	}
	const limit = 60
	if ms := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); ms != limit*1000 {
		t.Errorf("TCP_USER_TIMEOUT: got %d ms, want %d s", ms, limit)
	}
	on := option(unix.SOL_SOCKET, unix.SO_KEEPALIVE)
	idle, interval, count := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	if seconds := idle + count*interval; on == 0 || seconds != limit {
		t.Errorf("probes: on %d, for %d s, want %d s", on, seconds, limit)
	}
}
