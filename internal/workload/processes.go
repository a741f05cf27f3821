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

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
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

// containerOf says which container a process, or a thread, is in. false: it is in none that is recognised, or has ended.
func (f *finder) containerOf(id int) (pod.Identity, bool) {
	cgroups, err := os.ReadFile(filepath.Join(f.proc, strconv.Itoa(id), "cgroup"))
	if err != nil {
		return pod.Identity{}, false
	}
	return pod.ContainerOfProcess(string(cgroups))
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
		return found, fmt.Errorf("%w: find the daemon's own network namespace: %w", errNothingFound, err)
	}
	w := walk{pids: map[int]bool{}}
	w.cgroups(f.cgroups)
	found.oldest = map[netns.Inode]int{}
	started := map[netns.Inode]uint64{}
	for pid := range w.pids {
		inode, start, err := f.look(pid, own)
		switch {
		case isGone(err):
		case errors.Is(err, fs.ErrPermission):
			found.denied = err
		case err != nil:
			w.failed.add(err)
		case inode == own:
		default:
			first, ok := started[inode]
			if !ok || start < first || start == first && pid < found.oldest[inode] {
				started[inode], found.oldest[inode] = start, pid
			}
		}
	}
	return found, w.failed.err()
}

// look returns the namespace of a process, and when the process has begun if that is not the own one.
func (f *finder) look(pid int, own netns.Inode) (inode netns.Inode, start uint64, err error) {
	inode, err = netns.InodeOf(f.namespaceOf(pid))
	if err == nil && inode != own {
		start, err = f.startOf(pid)
	}
	return inode, start, err
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

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}
