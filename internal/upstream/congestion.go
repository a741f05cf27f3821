// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// SetCongestionControl chooses how fast a connection sends (TCP_CONGESTION). "" leaves what the machine chose.
func SetCongestionControl(fd int, name string) error {
	if name == "" {
		return nil
	}
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("set congestion control %q: %w", name, err)
	}
	return nil
}

// CheckCongestionControl reports whether this kernel has the one of that name, and otherwise which it has.
func CheckCongestionControl(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	if err := SetCongestionControl(fd, name); err != nil {
		available, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
		return fmt.Errorf("%w; this kernel has: %s", err, strings.TrimSpace(string(available)))
	}
	return nil
}
