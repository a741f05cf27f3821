// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// refusalPatience is how long the reset of a connection that its peer has closed may take to arrive.
const refusalPatience = 100 * time.Millisecond

// Unseen reports whether no server at the other end has seen anything that was sent behind the first `owed` bytes of a connection that has ended:
// the peer's FIN came, without acknowledging any of it, and then a reset, because its kernel had nobody left to give it to. A reset alone
// proves nothing: who has read a request may end the connection with one before the kernel has acknowledged anything. Who closes the sending
// side first can read what comes behind, and reset, but not answer: no HTTP server executes that. It may wait for refusalPatience.
func Unseen(fd int, owed uint64) bool {
	for deadline := time.Now().Add(refusalPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || info.Bytes_acked > owed {
			return false
		}
		switch info.State {
		case unix.BPF_TCP_CLOSE:
			// EPIPE: reset behind a FIN. ECONNRESET, or nothing because somebody has taken that: reset without one.
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			return err == nil && errors.Is(unix.Errno(code), unix.EPIPE)
		case unix.BPF_TCP_CLOSE_WAIT:
		default:
			return false
		}
	}
	return false
}

// Begin notes that a request begins, and that all requests before it were answered.
func (c *Conn) Begin() {
	c.ending.sending.Lock()
	defer c.ending.sending.Unlock()
	// The kernel counts the SYN as well.
	c.owed = c.sent + 1
}

// Unseen reports whether it is certain that nobody has seen anything of the request that began last. The connection has ended, and nobody
// sends.
func (c *Conn) Unseen() bool {
	c.ending.sending.Lock()
	defer c.ending.sending.Unlock()
	unseen := false
	c.control(func(fd int) { unseen = Unseen(fd, c.owed) })
	return unseen
}
