// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	procfs = "/proc"
	// namePrefix begins the names of cgroups of daemons.
	namePrefix = "xlb-delegate-"
)

// Name is what Confine may be called with, once at a time: xlb-delegate-PID-STARTTIME, with which another daemon finds whether this one still runs.
func Name() (string, error) {
	pid := os.Getpid()
	start, err := startTime(pid)
	if err != nil {
		return "", fmt.Errorf("read when this process was started: %w", err)
	}
	return fmt.Sprintf("%s%d-%s", namePrefix, pid, start), nil
}

// startTime is when a process was started, in ticks since the machine was: the 22nd field of proc_pid_stat(5). With its number it stands for one process.
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", procfs, pid))
	if err != nil {
		return "", err
	}
	// The second field is a name in brackets, which may have brackets and blanks of its own; the third one follows the last bracket.
	stat := string(text)
	fields := strings.Split(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	const at = 22 - 3 + 1 // what is before the first blank is empty
	if len(fields) <= at {
		return "", fmt.Errorf("%s/%d/stat has too few fields", procfs, pid)
	}
	return fields[at], nil
}

// removeStale removes the cgroups of daemons that were killed. What cannot be removed is left to the next one: only empty cgroups can.
func removeStale(h hierarchies) {
	roots := map[group]bool{h.unified: true}
	for _, k := range (Limits{Memory: 1, CPUs: 1}).controllers() {
		if root, isMounted := h.legacy[k.name]; isMounted {
			roots[root] = true
		}
	}
	for root := range roots {
		found, err := filepath.Glob(root.file(namePrefix + "*"))
		if err != nil {
			continue
		}
		for _, dir := range found {
			if isStale(filepath.Base(dir)) {
				_ = group(dir).remove(time.Time{})
			}
		}
	}
}

// isStale reports the name of a daemon's cgroup whose process has ended. Another name is not ours.
func isStale(name string) bool {
	text, isOurs := strings.CutPrefix(name, namePrefix)
	number, start, hasStart := strings.Cut(text, "-")
	pid, err := strconv.ParseUint(number, 10, 31)
	if !isOurs || !hasStart || err != nil {
		return false
	}
	now, err := startTime(int(pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return now != start
}
