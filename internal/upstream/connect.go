// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// AwaitConnect returns when a socket has connected, or with the error of its failure, and at the latest at the deadline (os.ErrDeadlineExceeded; the zero
// time sets no deadline) or at the end of the context, with the context's error. connect has been called: before that a socket looks as if it had ended.
// The file is non-blocking, so that Go's poller watches it and the wait holds no thread: workloads whose endpoints do not answer can have thousands of
// connects in progress, and Go ends a process that has 10,000 threads.
func AwaitConnect(ctx context.Context, file *os.File, deadline time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := file.SetWriteDeadline(deadline); err != nil {
		// The poller has not taken the file: the kernel's memory is short, or its limit of watches is reached.
		return fmt.Errorf("wait for the connection: %w: %w", err, unix.ENOBUFS)
	}
	// Behind the deadline, which it replaces.
	defer context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(past) })()
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (ended bool) {
		ended, failed = connectEnded(int(fd))
		return ended
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	return failed
}

// connectEnded reports whether a socket has connected or failed to. The poller may wake up its user for no reason.
func connectEnded(fd int) (ended bool, err error) {
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return true, os.NewSyscallError("getsockopt", err)
	}
	if errno != 0 {
		return true, syscall.Errno(errno)
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false, nil // not yet
	}
	// Where no socket listens at a local port, one that has got this very port as its source has met its own SYN.
	if own, err := unix.Getsockname(fd); err != nil || isSame(own, peer) {
		return true, unix.ECONNREFUSED
	}
	return true, nil
}

func isSame(a, b unix.Sockaddr) bool {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		b, ok := b.(*unix.SockaddrInet4)
		return ok && a.Port == b.Port && a.Addr == b.Addr
	case *unix.SockaddrInet6:
		b, ok := b.(*unix.SockaddrInet6)
		return ok && a.Port == b.Port && a.Addr == b.Addr
	}
	return false
}
