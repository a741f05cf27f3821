// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is the directory of a cgroup.
type group string

// below is a cgroup in this one.
func (g group) below(name string) group { return group(filepath.Join(string(g), name)) }

func (g group) file(name string) string { return filepath.Join(string(g), name) }

// create makes it.
func (g group) create() error {
	err := g.inParent(func() error { return os.Mkdir(string(g), 0o755) })
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("make a cgroup: %w; mount the cgroups for writing (systemd: ProtectControlGroups=no)", err)
	}
	if err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return nil
}

// Attempts to change a directory whose mode another process changes at the same time.
const modeAttempts = 10

// ownerWrites is the bit of a mode that lets the owner make directories.
const ownerWrites = 0o200

// inParent makes or removes g. The kernel makes the root of a hierarchy without the right to write for its owner, which takes CAP_DAC_OVERRIDE, or, since
// it is the owner's, a change of its mode for that moment.
func (g group) inParent(change func() error) error {
	parent := filepath.Dir(string(g))
	err := change()
	for range modeAttempts {
		if !errors.Is(err, unix.EACCES) {
			return err
		}
		err = whileWritable(parent, change)
	}
	return err
}

func whileWritable(dir string, change func() error) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	closed := info.Mode().Perm() &^ ownerWrites // it was refused: another process has opened it since, if it is open
	if err := os.Chmod(dir, closed|ownerWrites); err != nil {
		return err
	}
	return errors.Join(change(), os.Chmod(dir, closed))
}

// set writes to a file that the kernel made.
func (g group) set(name, value string) error {
	f, err := os.OpenFile(g.file(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// read is a file's text without its last newline; empty where it cannot be read.
func (g group) read(name string) string {
	text, err := os.ReadFile(g.file(name))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// has reports a word of a file that is a list, such as cgroup.controllers.
func (g group) has(name, word string) bool {
	return slices.Contains(strings.Split(g.read(name), " "), word)
}

// number is a file's; 0 where it is absent.
func (g group) number(name string) uint64 {
	n, err := strconv.ParseUint(g.read(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// count is the number behind a key in a file of lines "key number"; 0 where it is absent.
func (g group) count(name, key string) uint64 {
	for line := range strings.Lines(g.read(name) + "\n") {
		text, isIt := strings.CutPrefix(line, key+" ")
		n, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 10, 64)
		if isIt && err == nil {
			return n
		}
	}
	return 0
}

// kill ends all processes in it and below, also those that are being forked. It is of version 2; one that does not exist has no processes.
func (g group) kill() error {
	if err := g.set("cgroup.kill", "1"); err != nil && !isGone(err) {
		return fmt.Errorf("kill what is in a cgroup: %w", err)
	}
	return nil
}

// isGone reports an error of a cgroup that has been removed.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// awaitEmpty returns when it has no processes, or does not exist. Those that have ended and were not waited for do not count. It is of version 2.
func (g group) awaitEmpty(until time.Time) error {
	events, err := os.Open(g.file("cgroup.events"))
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for the end of processes: %w", err)
	}
	defer events.Close()
	for {
		isEmpty, err := readsEmpty(events)
		switch {
		case isEmpty || isGone(err):
			return nil
		case err != nil:
			return fmt.Errorf("wait for the end of processes: %w", err)
		case !time.Now().Before(until):
			return fmt.Errorf("processes in %s do not end although they were killed; their kernel stacks (/proc/PID/stack) say why", g)
		}
		awaitChange(events, until)
	}
}

// readsEmpty reads cgroup.events.
func readsEmpty(events *os.File) (bool, error) {
	var text [256]byte
	n, err := events.ReadAt(text[:], 0)
	if n == 0 {
		return false, err
	}
	return strings.Contains(string(text[:n]), "populated 0\n"), nil
}

// awaitChange returns when the kernel reports that the file's text has changed since it was read, or for no reason.
func awaitChange(events *os.File, until time.Time) {
	fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
	if left := time.Until(until); left > 0 {
		_, _ = unix.Poll(fds, int(left.Milliseconds())+1) // the caller reads the file in any case
	}
}

// removePause is how long it takes until another attempt to remove a cgroup: a thread that has ended leaves it a moment later.
const removePause = 2 * time.Millisecond

// remove removes it, and the cgroups directly below. What has gone already is no error.
func (g group) remove(until time.Time) error {
	entries, err := os.ReadDir(string(g))
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove a cgroup: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, g.below(entry.Name()).removeAlone(until))
		}
	}
	return errors.Join(err, g.removeAlone(until))
}

func (g group) removeAlone(until time.Time) error {
	for {
		err := g.inParent(func() error { return unix.Rmdir(string(g)) })
		switch {
		case err == nil || isGone(err):
			return nil
		case !errors.Is(err, unix.EBUSY) || !time.Now().Before(until):
			return fmt.Errorf("remove a cgroup: %w", &os.PathError{Op: "rmdir", Path: string(g), Err: err})
		}
		time.Sleep(removePause)
	}
}

// groups are the cgroups that a process is in: one of version 2, and those of version 1 that bound it.
type groups struct {
	unified group
	legacy  []group
}

// below are cgroups in these.
func (s groups) below(name string) groups {
	below := groups{unified: s.unified.below(name)}
	for _, g := range s.legacy {
		below.legacy = append(below.legacy, g.below(name))
	}
	return below
}

func (s groups) all() []group { return append([]group{s.unified}, s.legacy...) }

// create makes all, or none.
func (s groups) create() error {
	for i, g := range s.all() {
		if err := g.create(); err != nil {
			for _, made := range s.all()[:i] {
				err = errors.Join(err, made.removeAlone(time.Time{}))
			}
			return err
		}
	}
	return nil
}

func (s groups) remove(until time.Time) (err error) {
	for _, g := range s.all() {
		err = errors.Join(err, g.remove(until))
	}
	return err
}
