// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	cgroupName = "xlb-bench"
	// removalPatience bounds the wait for killed processes to leave a cgroup.
	removalPatience = 5 * time.Second
	removalPoll     = 10 * time.Millisecond
)

// CgroupMount returns the mount point of the cgroup v2 hierarchy listed in
// mountinfo (proc(5), /proc/pid/mountinfo). Hybrid hosts mount it beside v1.
func CgroupMount(mountinfo io.Reader) (string, error) {
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		// The number of optional fields varies; " - " ends them.
		mount, filesystem, ok := strings.Cut(lines.Text(), " - ")
		if !ok || !strings.HasPrefix(filesystem, "cgroup2 ") {
			continue
		}
		if fields := strings.Fields(mount); len(fields) > 4 {
			return fields[4], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read mountinfo: %w", err)
	}
	return "", errors.New("no cgroup v2 hierarchy is mounted: mount one with " +
		"\"mount -t cgroup2 none /sys/fs/cgroup\"")
}

// cgroupRoot is the directory below which the lab's cgroups are made.
func cgroupRoot() (string, error) {
	mount, err := MountedCgroups()
	if err != nil {
		return "", err
	}
	return filepath.Join(mount, cgroupName), nil
}

// MountedCgroups is where this machine has cgroup v2 mounted.
func MountedCgroups() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	return CgroupMount(f)
}

// makeCgroups creates the directories in the order given, parents first.
func makeCgroups(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create cgroup (run as root): %w", err)
		}
	}
	return nil
}

// RemoveCgroups kills what is left in the tree at root and removes it.
func RemoveCgroups(root string) error {
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// cgroup.kill exists since Linux 5.14 and reaches the whole subtree.
	if err := os.WriteFile(filepath.Join(root, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill the processes left in %s: %w", root, err)
	}
	dirs, err := cgroupTree(root)
	if err != nil {
		return err
	}
	// rmdir answers EBUSY until the kernel has reaped the last process.
	return poll(removalPatience, func() error { return removeAll(dirs) })
}

// cgroupTree lists root and what lies below it, children before parents.
func cgroupTree(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	slices.Reverse(dirs)
	return dirs, err
}

func removeAll(dirs []string) error {
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// poll repeats f until it succeeds or the patience ends; the last error stays.
func poll(patience time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return Poll(ctx, removalPoll, f)
}

// Poll repeats f every interval until it succeeds; when ctx ends first, the
// last error of f is returned.
func Poll(ctx context.Context, interval time.Duration, f func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// CPUOf returns the processor time that the processes of a cgroup have used.
func CPUOf(dir string) (time.Duration, error) {
	content, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	return CPUStat(string(content))
}

// CPUStat reads the time used by a cgroup from the content of its cpu.stat
// (Documentation/admin-guide/cgroup-v2.rst; usage_usec is there even when the
// cpu controller is not enabled).
func CPUStat(content string) (time.Duration, error) {
	for line := range strings.Lines(content) {
		value, ok := strings.CutPrefix(line, "usage_usec ")
		if !ok {
			continue
		}
		us, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cpu.stat: usage_usec: %w", err)
		}
		return time.Duration(us) * time.Microsecond, nil
	}
	return 0, errors.New("cpu.stat: no usage_usec line")
}
