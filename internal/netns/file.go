// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoNamespace is of a file that stands for no network namespace.
var ErrNoNamespace = errors.New("not a network namespace")

// InodeOfFile is InodeOf for a file that may be any: it wraps ErrNoNamespace where the file is that of no network namespace. It waits for no file, and
// opens none that is not of the kernel's namespaces.
func InodeOfFile(path string) (Inode, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return Inode{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := mustBeNetns(fd); err != nil {
		return Inode{}, &os.PathError{Op: "look at", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Inode{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return inodeOf(&stat), nil
}

// mustBeNetns looks at what a descriptor of O_PATH stands for. The kinds of namespaces have one file system, nsfs, and ioctl_ns(2) tells them apart.
func mustBeNetns(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != unix.NSFS_MAGIC {
		return ErrNoNamespace
	}
	// By its name it could be another file by now.
	open, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(open)
	kind, err := unix.IoctlRetInt(open, unix.NS_GET_NSTYPE)
	if err == nil && kind != unix.CLONE_NEWNET {
		err = ErrNoNamespace
	}
	return err
}
