// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of this file never wait, so that the Go runtime is not told of them: a call that it is told of wakes its monitor in a
// process that is otherwise idle, and the monitor's looks cost several times as much as the call.

// WaitNow is epoll_wait that does not wait. It returns the number of events, or the error. There is room for one event at least.
func WaitNow(epfd int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// peekNow copies what there is to read, and leaves it there.
func peekNow(fd int, b []byte) (int, error) {
	const flags = unix.MSG_PEEK | unix.MSG_DONTWAIT
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// AcceptNow accepts a connection that waits, as a socket that does not block; EAGAIN: there is none. The other end's address is of the
// family of raw.
func AcceptNow(listener int, raw *unix.RawSockaddrAny) (fd int, err error) {
	size := uint32(unix.SizeofSockaddrAny)
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(raw)), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// IsOver reports whether a connection has ended in both directions, as by a reset, whatever is
// still to be read.
func IsOver(fd int) bool {
	fds, never := unix.PollFd{Fd: int32(fd)}, unix.Timespec{}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&never)), 0, 0, 0)
	return errno == 0 && n == 1 && fds.Revents&unix.POLLHUP != 0
}

// control is epoll_ctl.
func control(epfd, op, fd int, ev *unix.EpollEvent) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(ev)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Unlinger makes an orderly end of the close of a socket that was to be reset.
func Unlinger(fd int) {
	var off unix.Linger
	// The socket is ours and open: it cannot fail.
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&off)), unsafe.Sizeof(off), 0)
}

// CloseNow closes a socket that lingers for no time: only such a close cannot wait.
func CloseNow(fd int) {
	// A descriptor is gone whatever close says.
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}

// readTimer takes the count of a timerfd, and reports whether its time had come.
func readTimer(fd int) bool {
	var count [8]byte
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count[0])), uintptr(len(count)))
	return errno == 0 && n == uintptr(len(count))
}

// setTimer makes a timerfd ready once, so many ns from now, which must be more than 0.
func setTimer(fd int, ns int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(ns)}
	// It is our timer, and the time is valid: it cannot fail.
	_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// Pause sleeps for so long, which must be short: the Go runtime takes it for work.
func Pause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// A signal may end it early.
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
