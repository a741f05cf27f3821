// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// charge is a memory cgroup of v1, to which the kernel's memory is charged that a process causes: its sockets, descriptors, maps. The zero value, on
// machines that have none, tells nothing.
type charge struct{ dir string }

const chargeRoot = "/sys/fs/cgroup/memory"

func newCharge() (charge, error) {
	if _, err := os.Stat(filepath.Join(chargeRoot, "memory.kmem.usage_in_bytes")); err != nil {
		return charge{}, nil
	}
	c := charge{filepath.Join(chargeRoot, "xlb-bench-pods")}
	if err := os.Mkdir(c.dir, 0o755); err != nil && !os.IsExist(err) {
		return charge{}, fmt.Errorf("make a memory cgroup: %w", err)
	}
	return c, nil
}

// within is a command line that runs one in the cgroup, from its first instruction on.
func (c charge) within(path string, args ...string) (string, []string) {
	if c.dir == "" {
		return path, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, c.dir, path}, args...)
}

// read returns the kernel's memory and the buffers of TCP, in bytes.
func (c charge) read() (kernel, buffers int64, err error) {
	if c.dir == "" {
		return 0, 0, nil
	}
	for name, into := range map[string]*int64{"memory.kmem.usage_in_bytes": &kernel, "memory.kmem.tcp.usage_in_bytes": &buffers} {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			return 0, 0, err
		}
		if *into, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return kernel, buffers, nil
}

func (c charge) remove() error {
	if c.dir == "" {
		return nil
	}
	return os.Remove(c.dir)
}
