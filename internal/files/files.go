// SPDX-License-Identifier: Apache-2.0

// Package files reads files that a configuration names, and tells when they have changed. A configuration may come from a control plane, so names
// are not trusted: a device may be endless, a pipe may have no writer, and a read may never return.
package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Text is the limit for certificates, keys and texts of answers, in bytes.
const Text = 4 << 20

// errProc is of files whose content the kernel makes when they are read. Some of them wait for events, and a read takes those from whoever follows
// them.
var errProc = errors.New("a file of procfs; name a file on a disk")

// open does not wait for somebody to open the other end of a pipe: nothing, not even SIGTERM, would end that.
func open(path string) (*os.File, error) {
	if IsText(path) {
		return nil, errText
	}
	f, err := openLeased(path)
	if err != nil {
		return nil, err
	}
	// Of the descriptor: /dev/fd/63 is a link of procfs to a pipe.
	var fs unix.Statfs_t
	if err := control(f, func(fd int) error { return unix.Fstatfs(fd, &fs) }); err == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, errProc)
	}
	return f, nil
}

// leasePace is how often a file is tried that another process has a lease for.
const leasePace = 10 * time.Millisecond

// openLeased opens a file that another process may have a lease for writing for, as a file server has: the first try tells it to give that up, and fails
// (fcntl(2), F_SETLEASE).
func openLeased(path string) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(leasePace) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(began) >= patience {
			return f, err
		}
	}
}

// control calls do with the file's descriptor, and leaves it as it is: File.Fd would have its reads block.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(raw.Control(func(fd uintptr) { failed = do(int(fd)) }), failed)
}

// Passes reports whether an error of Begin or Read may be another one at the next try, though the file stays as it is: for want of descriptors, of a
// permission, of a disk that answers. Others are of what the file is.
func Passes(err error) bool {
	var errno unix.Errno
	switch {
	case errors.Is(err, errHangs):
		return true
	case !errors.As(err, &errno):
		return false
	}
	switch errno {
	case unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.ENXIO:
		return false
	}
	return true
}

// Begin returns the first n bytes, or as many as there are, of a file that the operator names, which may be a pipe. The file must give them within
// some seconds.
func Begin(path string, n int64) ([]byte, error) {
	return inTime(path, func(opened func(io.Closer)) ([]byte, error) {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		opened(f)
		return io.ReadAll(io.LimitReader(f, n))
	})
}

// Read returns what is in a regular file, or one that links lead to, of at most limit bytes. The error names the file. The file must give its content
// within some seconds.
func Read(path string, limit int64) ([]byte, error) {
	return inTime(path, func(opened func(io.Closer)) ([]byte, error) {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		opened(f)
		return readRegular(f, limit)
	})
}

func readRegular(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", f.Name())
	}
	// It may grow meanwhile.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: longer than %d bytes", f.Name(), limit)
	}
	return data, nil
}
