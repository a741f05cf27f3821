// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// searched is among how many source ports the kernel looks for a free one, and searches is how often it does. It would look through all of the
	// network namespace: a pod that holds 20,000 to one endpoint would make each connection there cost milliseconds of a processor, which it does not
	// pay for. With nine ports of ten in use a search finds one; with all but 30 of 28,000, one connection of thirty finds none in three searches.
	searched = 1024
	searches = 3
	// rangeFile is of the network namespace of the thread that opens it.
	rangeFile = "/proc/sys/net/ipv4/ip_local_port_range"
)

// ports are those from which the kernel takes source ports of connections, the last one included; 0: not known, and it takes one of all.
type ports struct{ first, last uint16 }

// clientPorts are those of the network namespace that the thread is in.
func clientPorts() ports {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return ports{}
	}
	low, high, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\t")
	first, badFirst := strconv.ParseUint(low, 10, 16)
	last, badLast := strconv.ParseUint(high, 10, 16)
	if badFirst != nil || badLast != nil {
		return ports{}
	}
	return ports{first: uint16(first), last: uint16(last)}
}

// some are as many as are searched at once, at random; 0: all are.
func (p ports) some() ports {
	count := int(p.last) - int(p.first) + 1
	if p.first == 0 || count <= searched {
		return ports{}
	}
	first := p.first + uint16(rand.N(count-searched+1))
	return ports{first: first, last: first + searched - 1}
}

// option is the value of IP_LOCAL_PORT_RANGE (Linux 6.3): the first port in the lower 16 bits, the last one in the upper.
func (p ports) option() int { return int(uint32(p.last)<<16 | uint32(p.first)) }

// connect connects a socket from one of some of the ports, without waiting. EADDRNOTAVAIL: none was found free.
func (p ports) connect(fd int, to unix.Sockaddr) (err error) {
	for range searches {
		some := p.some()
		if some != (ports{}) {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, some.option()); err != nil {
				return os.NewSyscallError("setsockopt IP_LOCAL_PORT_RANGE", err)
			}
		}
		err = unix.Connect(fd, to)
		if some == (ports{}) || !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
	}
	return err
}
