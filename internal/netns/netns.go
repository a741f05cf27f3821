// SPDX-License-Identifier: Apache-2.0

// Package netns tells network namespaces apart, and runs code in one.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Cookie is the kernel's number of the calling thread's network namespace (SO_NETNS_COOKIE).
func Cookie() (uint64, error) {
	// The kernel tells it of a socket's namespace alone, of whatever family.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket in the network namespace: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read the cookie of the network namespace: %w", err)
	}
	return cookie, nil
}

// Inode tells a namespace from all others that exist. Unlike the cookie it is known without entering; the namespace that is made next may get that of
// one that has ended.
type Inode struct{ Device, Number uint64 }

func inodeOf(stat *unix.Stat_t) Inode { return Inode{stat.Dev, stat.Ino} }

// InodeOf is that of the namespace which a file such as /proc/1/ns/net stands for.
func InodeOf(path string) (Inode, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return Inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return inodeOf(&stat), nil
}

// ofThread is the file of the calling thread's namespace.
const ofThread = "/proc/thread-self/ns/net"

// Namespace is a network namespace. It stays as long as it is open. It is safe for concurrent use, but for Close.
type Namespace struct{ file *os.File }

// Own is that of the calling thread.
func Own() (*Namespace, error) { return Open(ofThread) }

// Open is that of a file such as /proc/1/ns/net.
func Open(path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Namespace{file}, nil
}

// Anew is the same namespace, opened by the kernel's own file of it. One that was opened by a file that it is mounted at holds that mount.
func (n *Namespace) Anew() (own *Namespace, err error) {
	err = n.Within(func() error {
		own, err = Own()
		return err
	})
	return own, err
}

// Close lets it go.
func (n *Namespace) Close() {
	// It was only read.
	_ = n.file.Close()
}

// Cookie is the kernel's number of it.
func (n *Namespace) Cookie() (cookie uint64, err error) {
	err = n.Within(func() error {
		cookie, err = Cookie()
		return err
	})
	return cookie, err
}

// Inode tells it from all others while it is open.
func (n *Namespace) Inode() (Inode, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &stat); err != nil {
		return Inode{}, os.NewSyscallError("fstat", err)
	}
	return inodeOf(&stat), nil
}

// isCurrent reports whether the calling thread is in it.
func (n *Namespace) isCurrent() (bool, error) {
	is, err := n.Inode()
	if err != nil {
		return false, err
	}
	own, err := InodeOf(ofThread)
	return err == nil && is == own, err
}

// Enter makes the calling thread one of it, which takes CAP_SYS_ADMIN if the thread is in another one. The caller has locked the thread, and does not unlock it.
func (n *Namespace) Enter() error {
	is, err := n.isCurrent()
	if err == nil && !is {
		err = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET)
	}
	if err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return nil
}

// Within runs do on a thread that is in it: the calling one where that is, otherwise another one, which returns to its own namespace afterwards. The
// process's first thread is not taken away from its namespace, which /proc/PID/ns/net shows as that of the process. It returns the error of do.
func (n *Namespace) Within(do func() error) error {
	runtime.LockOSThread()
	if is, err := n.isCurrent(); err == nil && is {
		defer runtime.UnlockOSThread()
		return do()
	}
	runtime.UnlockOSThread()
	return n.visitApart(do)
}

// visitApart is visit on another goroutine than the caller's, which goes on wherever that one ends.
func (n *Namespace) visitApart(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- n.visit(do) }()
	return <-done
}

// visit runs do in the namespace, and returns its error. Where the thread cannot return to its own namespace it stays locked, and ends with the goroutine,
// which does nothing else: no other one runs in the namespace.
func (n *Namespace) visit(do func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// Go cannot end the first thread: it would stay there for ever. While this goroutine has it, the next one gets another.
		defer runtime.UnlockOSThread()
		return n.visitApart(do)
	}
	own, err := Own()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := n.Enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = do()
	if own.Enter() == nil {
		runtime.UnlockOSThread()
	}
	return err
}
