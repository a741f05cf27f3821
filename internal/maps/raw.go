// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// elementAttr is union bpf_attr of the commands on elements of maps.
type elementAttr struct {
	fd         uint32
	_          uint32
	key, value unsafe.Pointer
	flags      uint64
}

// takeNow is BPF_MAP_LOOKUP_AND_DELETE_ELEM, of which the Go runtime is not told: it does not wait, and a short connection costs the daemon
// little more than this.
func takeNow(fd int, key, value unsafe.Pointer) error {
	attr := elementAttr{fd: uint32(fd), key: key, value: value}
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return nil
}
