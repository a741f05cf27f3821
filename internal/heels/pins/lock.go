// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Lock keeps agents, and commands that detach them, from changing the same pins at once, or reporting the same ends. The kernel releases it when its
// holder dies.
type Lock struct {
	fd int
}

// OpenLock is the lock of a pin directory that is there.
func OpenLock(dir string) (*Lock, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{dir, err}
	}
	return &Lock{fd}, nil
}

// Close lets the lock go.
func (l *Lock) Close() { unix.Close(l.fd) }

// Hold waits for the lock, and has it while do runs.
func (l *Lock) Hold(do func() error) error {
	if err := l.take(0); err != nil {
		return err
	}
	return errors.Join(do(), unix.Flock(l.fd, unix.LOCK_UN))
}

// Try is Hold for callers that come again anyway: while another process has the lock, which may wait for this one to end, it does nothing.
func (l *Lock) Try(do func() error) error {
	err := l.TryTake()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), unix.Flock(l.fd, unix.LOCK_UN))
}

// TryTake takes the lock until it is closed; unix.EWOULDBLOCK while another has it.
func (l *Lock) TryTake() error { return l.take(unix.LOCK_NB) }

func (l *Lock) take(how int) error {
	for {
		err := unix.Flock(l.fd, unix.LOCK_EX|how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// LockDir makes the pin directory if it is not there, and returns with its lock held. Its last holder may have removed the directory.
func LockDir(dir string) (*Lock, error) {
	for {
		if err := Prepare(dir); err != nil {
			return nil, err
		}
		l, err := OpenLock(dir)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := l.take(0); err != nil {
			l.Close()
			return nil, &Error{dir, fmt.Errorf("lock: %w", err)}
		}
		if l.isOf(dir) {
			return l, nil
		}
		l.Close()
	}
}

// isOf says whether the directory is still the one that was opened.
func (l *Lock) isOf(dir string) bool {
	var own, now unix.Stat_t
	return unix.Fstat(l.fd, &own) == nil && unix.Stat(dir, &now) == nil && own.Ino == now.Ino && own.Dev == now.Dev
}

// File names the directory as proc_locks(5) does: the device in hexadecimal, and the number on it, as 08:01:131.
func (l *Lock) File() (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino), nil
}
