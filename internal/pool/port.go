// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/workload"
)

// portTries is how many ports are tried at random. With four of five in use one of a thousand i-socks finds none in so many.
const portTries = 32

// bind gives a socket a source port of its own, as long as there are some; then one that i-socks to
// other endpoints have as well, or had. The kernel would look for one from a random place on, port
// after port, and through all of them where most are in use. What is tried at random costs the same
// in any case.
func bind(fd int, source netip.Addr, ports portRange) error {
	err := ports.bind(fd, source)
	if errors.Is(err, unix.EADDRINUSE) {
		err = errors.Join(share(fd), ports.bind(fd, source))
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(source, 0)))
	}
	return err
}

// bind tries some of the ports.
func (r portRange) bind(fd int, source netip.Addr) (err error) {
	err = unix.EADDRINUSE
	for i := 0; i < portTries && errors.Is(err, unix.EADDRINUSE); i++ {
		if port := r.random(); port != 0 {
			err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(source, port)))
		}
	}
	return err
}

// share lets another i-sock have the socket's port, if it leads elsewhere, or once this one waits in
// TIME_WAIT.
func share(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("share source port: %w", err)
	}
	return nil
}

// portRange are ports that the kernel gives to clients.
type portRange struct {
	first, last uint16
	// reserved are those in between that it does not give away.
	reserved []portRange
}

// portsOf are those of a workload's network namespace at this moment. Where they cannot be read, the kernel chooses.
func portsOf(w *workload.Workload) (r portRange) {
	err := w.Within(func() (err error) {
		// They are those of the network namespace of the thread that opens the files.
		r, err = readPorts("/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/ip_local_reserved_ports")
		return err
	})
	if err != nil {
		return portRange{}
	}
	return r
}

func readPorts(rangeFile, reservedFile string) (portRange, error) {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return portRange{}, err
	}
	r, err := parsePorts(strings.Join(strings.Fields(string(text)), "-"))
	if err != nil {
		return portRange{}, err
	}
	text, err = os.ReadFile(reservedFile)
	if err != nil {
		return portRange{}, err
	}
	for one := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		if one == "" {
			continue
		}
		reserved, err := parsePorts(one)
		if err != nil {
			return portRange{}, err
		}
		r.reserved = append(r.reserved, reserved)
	}
	return r, nil
}

// parsePorts reads "8080" or "8080-8090".
func parsePorts(text string) (portRange, error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	first, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return portRange{}, fmt.Errorf("read ports %q: %w", text, err)
	}
	last, err := strconv.ParseUint(high, 10, 16)
	if err != nil {
		return portRange{}, fmt.Errorf("read ports %q: %w", text, err)
	}
	return portRange{first: uint16(first), last: uint16(last)}, nil
}

// random is a port of every second one, and 0, the kernel's choice, where there is none to choose,
// or the one chosen is reserved. A port that a socket is bound to is nobody's who connects without
// one: the other half, from which the kernel chooses first for those, is left to them, however many
// i-socks there are, and however many of their ports wait.
func (r portRange) random() uint16 {
	if r.first == 0 || r.last <= r.first {
		return 0
	}
	port := r.first + 1 + 2*uint16(rand.N((int(r.last)-int(r.first)+1)/2))
	if r.isReserved(port) {
		return 0
	}
	return port
}

func (r portRange) isReserved(port uint16) bool {
	for _, one := range r.reserved {
		if port >= one.first && port <= one.last {
			return true
		}
	}
	return false
}
