// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp changes when a file is written, replaced, or pointed elsewhere. The zero value is that of a file that is not there.
type Stamp struct {
	Size     int64
	modified unix.Timespec
	device   uint64
	inode    uint64
	// regular: it is a file with content.
	regular bool
}

// There reports whether the file is there.
func (s Stamp) There() bool { return s.inode != 0 }

// StampOf returns the stamp of what a path leads to, zero where that cannot be found, or not in time.
func StampOf(path string) Stamp {
	if path == "" {
		return Stamp{}
	}
	s, err := inTime(path, func(func(io.Closer)) (Stamp, error) {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return Stamp{}, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			// What comes through a pipe does not make another file of it.
			return Stamp{device: st.Dev, inode: st.Ino}, nil
		}
		return Stamp{Size: st.Size, modified: st.Mtim, device: st.Dev, inode: st.Ino, regular: true}, nil
	})
	if err != nil {
		return Stamp{}
	}
	return s
}

// age is how long ago the file was written, by the clock of the machine; 0 for what is no file.
func (s Stamp) age(now time.Time) time.Duration {
	if !s.regular {
		return 0
	}
	return now.Sub(time.Unix(s.modified.Unix()))
}

// isSame reports whether both are of one file, whatever it holds.
func (s Stamp) isSame(as Stamp) bool { return s.inode == as.inode && s.device == as.device }

// Times of changes.
const (
	// QuietTime is how long a file that is written in its place has to stay as it is before it is read: some write it in several steps.
	QuietTime = time.Second
	// longestWriter is how long that takes where a process has the file open for writing all the while.
	longestWriter = time.Minute
)

// Watch tells when a file has changed, and has been written to its end. The zero value has seen nothing; it is not safe for concurrent use.
type Watch struct {
	taken, seen Stamp
	since       time.Time
	known       bool
}

// Due reports whether the file differs from what was taken last, and is whole: no process has it open for writing, and it is another file than before
// or has been as it is for QuietTime. The stamp is what Take is to be told if it is taken. A file that is looked at for the first time need not be quiet.
func (w *Watch) Due(path string, now time.Time) (Stamp, bool) {
	s := StampOf(path)
	if w.known && s == w.taken {
		w.seen = s
		return s, false
	}
	if s != w.seen || w.since.IsZero() {
		w.seen, w.since = s, now
	}
	quiet := now.Sub(w.since)
	switch written, known := isWritten(path, s); {
	case written && !w.known:
		return s, max(quiet, s.age(now)) >= longestWriter
	case written:
		return s, quiet >= longestWriter
	case !w.known, known && s.There() && !s.isSame(w.taken):
		return s, true
	}
	return s, quiet >= QuietTime
}

// Take notes that what the file was with that stamp has been read. It reports false, and notes nothing, if the file is another one now: what was
// read may be parts of both.
func (w *Watch) Take(path string, s Stamp) bool {
	if StampOf(path) != s {
		return false
	}
	w.taken, w.known = s, true
	return true
}

// isWritten reports whether a process has the file open for writing, and whether that can be known: a lease for reading is given only where there is
// none (fcntl(2), F_SETLEASE). It takes CAP_LEASE or the file's owner, and some file systems have no leases.
func isWritten(path string, s Stamp) (written, known bool) {
	if !s.regular {
		return false, false
	}
	written, err := inTime(path, func(opened func(io.Closer)) (bool, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		opened(f)
		err = control(f, lease)
		if errors.Is(err, unix.EAGAIN) {
			return true, nil
		}
		return false, err
	})
	return written, err == nil
}

// lease takes a lease for reading and gives it back. A writer that comes meanwhile waits for that.
func lease(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err
}
