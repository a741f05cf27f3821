// SPDX-License-Identifier: Apache-2.0

package heelstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// InCgroup runs tests in a cgroup of their own, whose path they get: sockets belong to the cgroup of the process that makes them.
func InCgroup(run func(cgroup string) int) (int, error) {
	root := cgroupRoot
	if _, err := os.Stat(filepath.Join(root, "unified")); err == nil {
		root = filepath.Join(root, "unified")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 1, err
	}
	home := root
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			home = filepath.Join(root, strings.TrimSpace(path))
		}
	}
	cgroup := filepath.Join(root, fmt.Sprintf("heels-test-%d", os.Getpid()))
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		return 1, err
	}
	defer os.Remove(cgroup)
	join := func(dir string) error { return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0) }
	if err := join(cgroup); err != nil {
		return 1, err
	}
	code := run(cgroup)
	return code, join(home)
}
