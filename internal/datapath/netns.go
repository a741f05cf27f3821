// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NetnsCookie is the kernel's number of the calling thread's network namespace.
func NetnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read cookie of network namespace: %w", err)
	}
	return cookie, nil
}
