// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LeastMemory is what a daemon with a small configuration starts with, in bytes: maps, which are charged to its cgroup, and what it takes to load programs.
// Measured on two processors: 89 MiB at most; with a limit of 96 the kernel killed it.
const LeastMemory = 128 << 20

// memoryLimit looks at the limits of this process's memory cgroups, of either version.
func memoryLimit() Result {
	limit, file, err := leastLimit("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return degraded(err.Error(), "")
	}
	return judgeMemory(limit, file)
}

func judgeMemory(limit uint64, file string) Result {
	if limit >= LeastMemory {
		return ok(fmt.Sprintf("none below %d MiB", LeastMemory>>20))
	}
	return degraded(fmt.Sprintf("%d MiB in %s: the kernel may kill the daemon without a word, at its start or later", limit>>20, file),
		fmt.Sprintf("set it to %d MiB or more (MemoryMax= in the unit)", LeastMemory>>20))
}

// MemoryWarning says that the kernel may kill this process for its memory; "" where nothing tells so.
func MemoryWarning() string {
	if r := memoryLimit(); r.Status != OK && r.Remedy != "" {
		return r.Detail + "; " + r.Remedy
	}
	return ""
}

// leastLimit returns the smallest limit, in bytes, and the file that has it.
func leastLimit(mountinfo, cgroup string) (limit uint64, file string, err error) {
	limit = math.MaxUint64
	own, err := os.ReadFile(cgroup)
	if err != nil {
		return limit, "", err
	}
	mounts, err := os.Open(mountinfo)
	if err != nil {
		return limit, "", err
	}
	defer mounts.Close()
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 {
			continue
		}
		name, controllers := "", ""
		switch options := "," + after[strings.LastIndexByte(after, ' ')+1:] + ","; {
		case strings.HasPrefix(after, "cgroup2 "):
			name = "memory.max"
		case strings.HasPrefix(after, "cgroup ") && strings.Contains(options, ",memory,"):
			name, controllers = "memory.limit_in_bytes", "memory"
		default:
			continue
		}
		mount := unescape(fields[4])
		for dir := filepath.Join(mount, pathIn(string(own), controllers)); len(dir) >= len(mount); dir = filepath.Dir(dir) {
			at := filepath.Join(dir, name)
			if n, e := readLimit(at); e != nil {
				err = errors.Join(err, e)
			} else if n < limit {
				limit, file = n, at
			}
		}
	}
	return limit, file, errors.Join(err, lines.Err())
}

// pathIn is this process's place in a hierarchy: of version 2, which names no controllers, or of the one with that controller.
func pathIn(cgroups, controller string) string {
	for line := range strings.Lines(cgroups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && strings.Contains(","+parts[1]+",", ","+controller+",") {
			return parts[2]
		}
	}
	return "/"
}

// readLimit reads a file of a cgroup. One that is not there sets no limit, as does "max".
func readLimit(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(text)) == "max" {
		return math.MaxUint64, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
