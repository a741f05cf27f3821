// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Charge is a memory cgroup of v1, to which the kernel's memory is charged that a process causes: its sockets, descriptors, maps. The zero value, on
// machines that have none, tells nothing.
type Charge struct{ dir string }

const chargeRoot = "/sys/fs/cgroup/memory"

// charged is the one that there is: only one benchmark runs at a time.
var charged = Charge{filepath.Join(chargeRoot, "xlb-bench")}

// NewCharge makes one where the machine has them.
func NewCharge() (Charge, error) {
	if _, err := os.Stat(filepath.Join(chargeRoot, "memory.kmem.usage_in_bytes")); err != nil {
		return Charge{}, nil
	}
	c := charged
	if err := os.Mkdir(c.dir, 0o755); err != nil && !os.IsExist(err) {
		return Charge{}, fmt.Errorf("make a memory cgroup: %w", err)
	}
	return c, nil
}

// Within is a command line that runs one in the cgroup, from its first instruction on.
func (c Charge) Within(path string, args ...string) (string, []string) {
	if c.dir == "" {
		return path, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, c.dir, path}, args...)
}

// Read returns the kernel's memory and the buffers of TCP, in bytes.
func (c Charge) Read() (kernel, buffers int64, err error) {
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

// Remove removes it once its processes have ended.
func (c Charge) Remove() error {
	if c.dir == "" {
		return nil
	}
	if err := os.Remove(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
