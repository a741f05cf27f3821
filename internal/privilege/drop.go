// SPDX-License-Identifier: Apache-2.0

package privilege

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Own are the effective capabilities of the calling thread.
func Own() (Set, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return 0, fmt.Errorf("read the capabilities of this process: %w", err)
	}
	return Set(data[0].Effective) | Set(data[1].Effective)<<32, nil
}

// Drop leaves all threads of this process, and those that they start, the effective capabilities of keep, which are then the permitted ones, too, and none that
// a program inherits. Nothing that the process executes may have more (PR_SET_NO_NEW_PRIVS); where the process has CAP_SETPCAP, which it needs for that,
// the bounding set is keep's, too. With an error some may have been dropped, in all threads alike.
func Drop(keep Set) error {
	if err := inAllThreads("PR_SET_NO_NEW_PRIVS", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	have, err := Own()
	if err != nil {
		return err
	}
	if have.Has(unix.CAP_SETPCAP) {
		if err := bound(keep); err != nil {
			return err
		}
	}
	return set(have & keep)
}

// bound takes all but keep out of the bounding set.
func bound(keep Set) error {
	for bit := 0; ; bit++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(bit), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // it was the kernel's last one
		}
		if err != nil {
			return fmt.Errorf("read the bounding set: %w", err)
		}
		if has == 0 || keep.Has(bit) {
			continue
		}
		if err := inAllThreads("PR_CAPBSET_DROP", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(bit), 0); err != nil {
			return err
		}
	}
}

// set makes s the effective and the permitted capabilities. Ambient ones go with the inheritable ones.
func set(s Set) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(s), uint32(s>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	return inAllThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
}

// inAllThreads does a system call in each thread: what it changes is the thread's.
//
//go:uintptrescapes
func inAllThreads(name string, call, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(call, a, b, c)
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return fmt.Errorf("%s in all threads: %w with cgo; build with CGO_ENABLED=0", name, errno)
	}
	return fmt.Errorf("%s: %w", name, errno)
}
