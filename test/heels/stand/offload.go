// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// offload is a command of ethtool(8) that switches one feature (linux/ethtool.h).
type offload uint32

const (
	receiveChecksums    offload = 0x15
	transmitChecksums   offload = 0x17
	scatterGather       offload = 0x19
	tcpSegmentation     offload = 0x1f
	genericSegmentation offload = 0x24
	genericReceive      offload = 0x2c
)

// allOffloads in the order in which they can be switched on: segmentation needs checksums.
var allOffloads = []offload{receiveChecksums, transmitChecksums, scatterGather, tcpSegmentation, genericSegmentation, genericReceive}

type ethtoolValue struct {
	command, data uint32
}

// ifreq of the ioctl, with a pointer in its union (linux/if.h).
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// setOffloads switches features of a device in the namespace of this thread.
func setOffloads(device string, on bool, which ...offload) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var errs []error
	for _, w := range which {
		value := ethtoolValue{command: uint32(w)}
		if on {
			value.data = 1
		}
		request := ifreq{data: unsafe.Pointer(&value)}
		copy(request.name[:], device)
		// A device may not let itself be told one that it cannot change.
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 && !errors.Is(errno, unix.EOPNOTSUPP) {
			errs = append(errs, fmt.Errorf("ethtool command %#x on %s: %w", uint32(w), device, errno))
		}
	}
	return errors.Join(errs...)
}
