// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// finder finds the network namespaces of the processes in cgroups.
type finder struct {
	// proc is where proc(5) is mounted.
	proc string
	// cgroups are directories of cgroup v2. Those below count as well.
	cgroups []string
}

// namespaceOf is the file of the network namespace of a process, or of a thread.
func (f *finder) namespaceOf(id int) string {
	return filepath.Join(f.proc, strconv.Itoa(id), "ns/net")
}

// own is the network namespace of this process.
func (f *finder) own() (netns.Inode, error) {
	return netns.InodeOf(filepath.Join(f.proc, "self/ns/net"))
}

// namespaces are those of the processes in the cgroups, but the own one.
type namespaces struct {
	// oldest is the oldest process of each: most of the others end before it does.
	oldest map[netns.Inode]int
	// denied is the error of a process whose namespace this process may not see; nil: there is no such process.
	denied error
}

// find looks at all processes. The error is of what could not be looked at; what has been found is right all the same.
func (f *finder) find() (found namespaces, err error) {
	own, err := f.own()
	if err != nil {
		return found, fmt.Errorf("find the daemon's own network namespace: %w", err)
	}
	pids, failed := f.processes()
	found.oldest = map[netns.Inode]int{}
	started := map[netns.Inode]uint64{}
	for pid := range pids {
		inode, start, err := f.look(pid, own)
		switch {
		case isGone(err):
		case errors.Is(err, fs.ErrPermission):
			found.denied = err
		case err != nil:
			failed = errors.Join(failed, err)
		case inode == own:
		default:
			first, ok := started[inode]
			if !ok || start < first || start == first && pid < found.oldest[inode] {
				started[inode], found.oldest[inode] = start, pid
			}
		}
	}
	return found, failed
}

// look returns the namespace of a process, and when the process has begun if that is not the own one.
func (f *finder) look(pid int, own netns.Inode) (inode netns.Inode, start uint64, err error) {
	inode, err = netns.InodeOf(f.namespaceOf(pid))
	if err == nil && inode != own {
		start, err = f.startOf(pid)
	}
	return inode, start, err
}

// processes are those of the cgroups and of all below.
func (f *finder) processes() (pids map[int]bool, err error) {
	pids = map[int]bool{}
	for _, cgroup := range f.cgroups {
		walked := filepath.WalkDir(cgroup, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return unlessGone(err)
			}
			if !d.IsDir() {
				return nil
			}
			return f.readProcesses(filepath.Join(path, "cgroup.procs"), pids)
		})
		if walked != nil {
			err = errors.Join(err, fmt.Errorf("find the processes of %s: %w", cgroup, walked))
		}
	}
	return pids, err
}

// readProcesses adds those of one cgroup. A process of another pid namespace shows as 0: there is no way to its network namespace. A threaded
// cgroup has no list of its own (EOPNOTSUPP): its processes are in that of the domain above.
func (f *finder) readProcesses(file string, pids map[int]bool) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return unlessGone(err)
	}
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 31); err == nil && pid > 0 {
			pids[int(pid)] = true
		}
	}
	return nil
}

// startOf is when a process has begun, in clock ticks since the machine has (proc_pid_stat(5), field 22). The name before may have any bytes.
func (f *finder) startOf(pid int) (uint64, error) {
	name := filepath.Join(f.proc, strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// The name is field 2, and a space follows it.
	const behindName = 22 - 2
	fields := bytes.Split(text[bytes.LastIndexByte(text, ')')+1:], []byte{' '})
	if len(fields) <= behindName {
		return 0, fmt.Errorf("%s has %d fields behind the name, want more than %d", name, len(fields), behindName)
	}
	return strconv.ParseUint(string(fields[behindName]), 10, 64)
}

// unlessGone is nil for an error that a process or a cgroup leaves which has ended meanwhile.
func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}
