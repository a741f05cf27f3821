// SPDX-License-Identifier: Apache-2.0

// Package netns tells network namespaces apart, and runs code in one.
package netns

import (
	"errors"
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

// Namespace is a network namespace. It stays as long as it is open. It is safe for concurrent use, but for Close.
type Namespace struct{ file *os.File }

// Own is that of the calling thread.
func Own() (*Namespace, error) { return Open("/proc/thread-self/ns/net") }

// Open is that of a file such as /proc/1/ns/net.
func Open(path string) (*Namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Namespace{file}, nil
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

// isCurrent reports whether the calling thread is in it.
func (n *Namespace) isCurrent() (bool, error) {
	var want, own unix.Stat_t
	err := errors.Join(unix.Fstat(int(n.file.Fd()), &want), unix.Stat("/proc/thread-self/ns/net", &own))
	return err == nil && want.Ino == own.Ino, err
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

// Within runs do on a thread that is in it.
func (n *Namespace) Within(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if is, err := n.isCurrent(); err == nil && is {
		return do()
	}
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this function, and no other goroutine runs in the namespace.
		runtime.LockOSThread()
		err := n.Enter()
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}
