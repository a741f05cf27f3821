// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memInfo is what SO_MEMINFO gives (SK_MEMINFO_* of linux/sock_diag.h), in bytes.
type memInfo struct {
	ReceiveQueue, ReceiveLimit, SendQueue, SendLimit, Reserved, Unsent, Options, Backlog, Drops uint32
}

func memInfoOf(fd int) (m memInfo, err error) {
	size := uint32(unsafe.Sizeof(m))
	_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&size)), 0)
	if failed != 0 {
		return m, os.NewSyscallError("getsockopt SO_MEMINFO", failed)
	}
	return m, nil
}

// evenPatience is how long the last bytes of a connection may take to be acknowledged.
const evenPatience = 30 * time.Second

// isEven reports whether the kernel's count of an idle socket's memory is right. A socket gets memory in whole pages: when nothing is queued,
// whole pages are what it has in reserve, unless something was counted that was not given back, or the other way round.
func isEven(fd int) (even bool, err error) {
	for end := time.Now().Add(evenPatience); !even && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		m, err := memInfoOf(fd)
		if err != nil {
			return false, err
		}
		idle := m.ReceiveQueue == 0 && m.SendQueue == 0 && m.Unsent == 0
		even = idle && m.Reserved%uint32(os.Getpagesize()) == 0
	}
	return even, nil
}

// even is isEven of a client's connection.
func (c *clientConn) even() (even bool, err error) {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false, err
	}
	if err := raw.Control(func(fd uintptr) { even, err = isEven(int(fd)) }); err != nil {
		return false, fmt.Errorf("look at the socket: %w", err)
	}
	return even, err
}
