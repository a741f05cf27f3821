// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread calls f on a thread that no other goroutine gets, and that ends when f has returned. It is for goroutines that do nothing else.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked: the thread ends with the goroutine
	}
	// Go cannot end the first thread, and the kernel takes much of it for the process's own. While this goroutine has it, the next one gets another.
	defer runtime.UnlockOSThread()
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		f()
	}()
	<-locked
}

// creationMask has files be for the user and its group alone. Sockets that the program listens at are files.
const creationMask = 0o007

// restrictThread takes from the calling thread what a program that it starts shall not inherit. The thread can do nothing else afterwards.
func restrictThread() error {
	// A thread's mask of file modes is the process's until it has its own.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare(CLONE_FS): %w", err)
	}
	unix.Umask(creationMask)
	if err := leavePrecedence(); err != nil {
		return fmt.Errorf("setpriority: %w", err)
	}
	if err := leaveKeyring(); err != nil {
		return fmt.Errorf("keyctl(KEYCTL_JOIN_SESSION_KEYRING): %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	if err := clearInheritable(); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	return nil
}

// leavePrecedence ends that the thread goes before those of other programs, as the daemon's do.
func leavePrecedence() error {
	const neutral = 20 // getpriority(2): the system call returns 20 - niceness
	precedence, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || precedence <= neutral {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
}

// leaveKeyring gives the thread an empty session keyring without a name. With the daemon's, which is root's, the program would possess root's keys. A kernel
// without keys, and a filter that refuses the call, refuse it to the program as well.
func leaveKeyring() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == 0 || errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EPERM) {
		return nil
	}
	return errno
}

// clearInheritable leaves the thread no inheritable and so no ambient capabilities: they outlast a change of the user.
func clearInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&header, &data[0])
}
