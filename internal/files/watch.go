// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Stamp changes when a file is written, replaced, or pointed elsewhere, and when it may become readable. The zero value is that of a file that is not
// there.
type Stamp struct {
	Size     int64
	modified unix.Timespec
	// changed is as of the inode: nobody can set it, so that one that is written with the former time and size differs (rsync --inplace --times).
	changed unix.Timespec
	device  uint64
	inode   uint64
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
		return Stamp{Size: st.Size, modified: st.Mtim, changed: st.Ctim, device: st.Dev, inode: st.Ino, regular: true}, nil
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

// rest is how long the file has been as it is, by the clock of the machine; 0 for what is no file.
func (s Stamp) rest(now time.Time) time.Duration {
	if !s.regular {
		return 0
	}
	return min(s.age(now), now.Sub(time.Unix(s.changed.Unix())))
}

// isSame reports whether both are of one file, whatever it holds.
func (s Stamp) isSame(as Stamp) bool { return s.inode == as.inode && s.device == as.device }

// Times of changes.
const (
	// QuietTime is how long a file that is written in its place has to stay as it is before it is read: some write it in several steps.
	QuietTime = time.Second
	// longestWriter is how long that takes where a process has the file open for writing all the while, or others come again and again.
	longestWriter = time.Minute
	// retryPace is how often a file is read that could not be.
	retryPace = 10 * time.Second
)

// Watch tells when a file has changed, and has been written to its end. The zero value has seen nothing; it is not safe for concurrent use.
type Watch struct {
	taken, seen Stamp
	// since is when it was first seen to be as it is, differs when it was first seen to be other than what was taken; zero: it has not been.
	since, differs time.Time
	// again is when it is to be read though it is as it was; zero: it is not.
	again time.Time
	known bool
}

// Due reports whether the file differs from what was taken last, and is whole: no process has it open for writing, and it is another file than before
// or has been as it is for QuietTime. One that never is for so long is due after a minute, when no process has it open for writing. The stamp is what
// Take is to be told if it is taken. A file that is looked at for the first time need not be quiet.
func (w *Watch) Due(path string, now time.Time) (Stamp, bool) {
	s := StampOf(path)
	if w.known && s == w.taken {
		w.seen, w.since, w.differs = s, time.Time{}, time.Time{}
		return s, !w.again.IsZero() && !now.Before(w.again)
	}
	if w.differs.IsZero() {
		w.differs = now
	}
	if s != w.seen || w.since.IsZero() {
		w.seen, w.since = s, now
	}
	if w.known {
		return s, w.isWhole(path, s, now)
	}
	written, _ := isWritten(path, s)
	return s, !written || max(now.Sub(w.since), s.age(now)) >= longestWriter
}

// isWhole reports whether a file that has changed is to be read. What only a lease can tell is asked for last: a writer that comes meanwhile waits.
func (w *Watch) isWhole(path string, s Stamp, now time.Time) bool {
	quiet, another := now.Sub(w.since), s.There() && !s.isSame(w.taken)
	// The looks may be far apart. Of a file system without leases the clock may be another one.
	rested := s.rest(now) >= QuietTime || now.Sub(w.differs) >= longestWriter
	if quiet < QuietTime && !another && !rested {
		return false
	}
	written, known := isWritten(path, s)
	if written {
		return quiet >= longestWriter
	}
	return quiet >= QuietTime || known && (another || rested)
}

// Take notes that what the file was with that stamp has been read, with that error. It reports false, and notes nothing, if the file is another one
// now: what was read may be parts of both. Of one that was not read in time nothing was, and it may hang still, so that nothing is known of it.
func (w *Watch) Take(path string, s Stamp, err error) bool {
	if !errors.Is(err, errHangs) && StampOf(path) != s {
		return false
	}
	w.take(s)
	return true
}

func (w *Watch) take(s Stamp) {
	w.taken, w.known, w.again, w.differs = s, true, time.Time{}, time.Time{}
}

// Again makes a file that was taken due after a while, if the error is one that passes: the file will not change when there are descriptors again.
func (w *Watch) Again(err error, now time.Time) {
	if Passes(err) {
		w.again = now.Add(retryPace)
	}
}

// isWritten reports whether a process has the file open for writing, and whether that can be known: a lease for reading is given only where there is
// none (fcntl(2), F_SETLEASE). It takes CAP_LEASE or the file's owner, and some file systems have no leases.
func isWritten(path string, s Stamp) (written, known bool) {
	if !s.regular {
		return false, false
	}
	written, err := inTime(path, func(opened func(io.Closer)) (bool, error) {
		f, err := open(path)
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

// lease takes a lease for reading and gives it back. A writer that comes meanwhile waits for that, and one that asks not to wait is refused: between the
// two calls nothing may have this thread wait, as the Go scheduler does after a usual call.
func lease(fd int) error {
	if _, _, err := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != 0 {
		return err
	}
	_, _, err := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	if err != 0 {
		return err
	}
	return nil
}
