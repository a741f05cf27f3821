// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Error says that a directory cannot hold pins.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("pin directory %s: %v", e.Path, e.Err) }

// Unwrap returns what the matter is.
func (e *Error) Unwrap() error { return e.Err }

// Prepare makes the directory if it can, and says whether it can hold pins.
func Prepare(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); err != nil {
		return &Error{dir, fmt.Errorf("cannot be made in %s: %w; make that first, on a BPF file system, or name another with --pin", parent, WithoutPath(err))}
	}
	if !OnBPF(dir) && !OnBPF(parent) {
		return &Error{dir, fmt.Errorf("not on a BPF file system; mount one: mount -t bpf bpf %s", parent)}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return &Error{dir, fmt.Errorf("cannot be made: %w; run as root on a BPF file system that is mounted read-write, or name another directory with --pin", WithoutPath(err))}
	}
	return nil
}

// CheckOwner refuses a directory in which others could exchange what is pinned.
func CheckOwner(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &Error{dir, err}
	}
	if others := st.Mode & 0o022; others != 0 || int(st.Uid) != os.Geteuid() {
		return &Error{dir, fmt.Errorf("other users may change it (mode %#o of user %d): what is pinned there decides where connections go; chown and chmod 0700 it, or name another with --pin", st.Mode&0o7777, st.Uid)}
	}
	return nil
}

// WithoutPath returns what err says without a path, which the message names already.
func WithoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// OnBPF reports whether a directory is on a BPF file system.
func OnBPF(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

// Names are those of what is in a pin directory, those apart that the kernel itself puts into the root of a BPF file system.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{dir, WithoutPath(err)}
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "maps.debug" && e.Name() != "progs.debug" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// RemoveAll takes off and removes all that is pinned, and the directory, unless a file system is mounted there.
func RemoveAll(dir string) error {
	names, err := Names(dir)
	for _, name := range names {
		if strings.HasPrefix(name, LinkPrefix) {
			err = errors.Join(err, Unlink(dir, name))
		} else {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	if _, gone := os.Stat(dir); gone != nil {
		return err
	}
	if e := os.Remove(dir); e != nil && !errors.Is(e, unix.EBUSY) {
		err = errors.Join(err, e)
	}
	return err
}
