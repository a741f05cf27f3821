// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// elementAttr is union bpf_attr of the commands on elements of maps.
type elementAttr struct {
	fd         uint32
	_          uint32
	key, value unsafe.Pointer
	flags      uint64
}

// LookupAndDelete is BPF_MAP_LOOKUP_AND_DELETE_ELEM, of which the Go runtime is not told: it does not wait, and a short connection costs the daemon
// little more than this. The sizes of K and V must be the map's.
func LookupAndDelete[K comparable, V any](m *ebpf.Map, key *K, value *V) error {
	attr := elementAttr{fd: uint32(m.FD()), key: unsafe.Pointer(key), value: unsafe.Pointer(value)}
	_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return nil
}
