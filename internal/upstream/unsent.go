// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes the kernel keeps of what was written to a connection of the slow path and its peer has no room for. The kernel would let them grow with
// the bandwidth, to 4 MiB and more (net.ipv4.tcp_wmem), for a peer that reads nothing as well. It is no bound of what is in flight.
const maxUnsent = 256 << 10

// BoundUnsent bounds what the kernel keeps of what is written to a socket, or to those that a listener will accept, and cannot be sent yet
// (TCP_NOTSENT_LOWAT). A write beyond it takes less, and the socket is writable when there is half as much.
func BoundUnsent(fd int) error {
	return os.NewSyscallError("setsockopt TCP_NOTSENT_LOWAT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent))
}
