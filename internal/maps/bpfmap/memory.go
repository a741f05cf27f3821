// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Memory is where the daemon sees arrays of the kernel's, until Close.
type Memory struct{ mappings [][]byte }

// MapArray maps an array into memory as list. The size of T must be that of its values, and of whole words.
func MapArray[T any](list *[]T, memory *Memory, m *ebpf.Map) error {
	if err := checkSize[T](m.String(), m.ValueSize()); err != nil {
		return err
	}
	bytes := int(m.ValueSize()) * int(m.MaxEntries())
	b, err := unix.Mmap(m.FD(), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s into memory: %w", m, err)
	}
	memory.mappings = append(memory.mappings, b)
	*list = unsafe.Slice((*T)(unsafe.Pointer(&b[0])), m.MaxEntries())
	return nil
}

// MapPages is MapArray for an array that grows. list has all the entries that there may be; see Pages. It is called before any page is made.
func MapPages[T any](list *[]T, memory *Memory, p *Pages) error {
	if err := checkSize[T](p.name, p.page.ValueSize); err != nil {
		return err
	}
	b, err := p.reserve()
	if err != nil {
		return err
	}
	memory.mappings = append(memory.mappings, b)
	*list = unsafe.Slice((*T)(unsafe.Pointer(&b[0])), p.MaxEntries())
	return nil
}

// Close unmaps the arrays; they must not be used afterwards.
func (m *Memory) Close() {
	for _, b := range m.mappings {
		// Unmapping a mapping of ours cannot fail.
		_ = unix.Munmap(b)
	}
	m.mappings = nil
}

// checkSize compares an entry's size with the daemon's type for it. Array values are 8 bytes apart at least.
func checkSize[T any](name string, size uint32) error {
	var t T
	if uintptr(size) != unsafe.Sizeof(t) {
		return fmt.Errorf("map %s: values of %d bytes, want %d: the kernel object and the daemon differ", name, size, unsafe.Sizeof(t))
	}
	if size%8 != 0 {
		return fmt.Errorf("map %s: values of %d bytes are not a whole number of words", name, size)
	}
	return nil
}
