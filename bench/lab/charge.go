// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Charge is a memory cgroup, to which the kernel's memory is charged that a process causes: its sockets, descriptors, maps. The zero value is that of
// machines where no cgroup says it: it reads nothing: 0.
type Charge struct {
	dir string
	// unified: dir is of cgroup v2, and the lab's own, where its processes start and which it removes.
	unified bool
}

const chargeRoot = "/sys/fs/cgroup/memory"

// charged is the one that there is: only one benchmark runs at a time.
var charged = Charge{dir: filepath.Join(chargeRoot, "xlb-bench")}

// NewCharge makes one of v1 where the machine has them, or else makes the lab's cgroup of v2 anew, in which the processes are to start and none may be
// yet. One that Reads nothing is no error: the machine has neither.
func NewCharge(cgroup string) (Charge, error) {
	if _, err := os.Stat(filepath.Join(chargeRoot, "memory.kmem.usage_in_bytes")); err != nil {
		return newUnifiedCharge(cgroup)
	}
	c := charged
	if err := os.Mkdir(c.dir, 0o755); err != nil && !os.IsExist(err) {
		return Charge{}, fmt.Errorf("make a memory cgroup: %w", err)
	}
	return c, nil
}

// newUnifiedCharge needs the memory controller in the cgroup's parent, which the lab made: it changes nothing above that.
func newUnifiedCharge(cgroup string) (Charge, error) {
	parent := filepath.Dir(cgroup)
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil || !slices.Contains(strings.Fields(string(controllers)), "memory") {
		return Charge{}, nil
	}
	if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return Charge{}, fmt.Errorf("enable the memory controller of cgroup v2: %w", err)
	}
	// What processes before have left in the kernel stays charged to the cgroup that they were in.
	if err := errors.Join(RemoveCgroups(cgroup), makeCgroups(cgroup)); err != nil {
		return Charge{}, err
	}
	c := Charge{dir: cgroup, unified: true}
	if _, _, err := c.Read(); errors.Is(err, errNoKernel) {
		return Charge{}, nil
	}
	return c, nil
}

// Reads reports whether the machine says what kernel memory is charged.
func (c Charge) Reads() bool { return c.dir != "" }

// Within is a command line that runs one in the cgroup, from its first instruction on.
func (c Charge) Within(path string, args ...string) (string, []string) {
	if c.dir == "" || c.unified {
		return path, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, c.dir, path}, args...)
}

// Read returns the kernel's memory and the buffers of TCP, in bytes; of v2 the buffers are those of all sockets.
func (c Charge) Read() (kernel, buffers int64, err error) {
	if c.dir == "" {
		return 0, 0, nil
	}
	if c.unified {
		text, err := os.ReadFile(filepath.Join(c.dir, "memory.stat"))
		if err != nil {
			return 0, 0, err
		}
		return chargedBy(string(text))
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

// errNoKernel is the answer of kernels before Linux 5.18.
var errNoKernel = errors.New("memory.stat has no line \"kernel\": use Linux 5.18 or later")

// chargedBy reads the lines kernel and sock of a memory.stat (Documentation/admin-guide/cgroup-v2.rst), in bytes.
func chargedBy(stat string) (kernel, sock int64, err error) {
	kernel = -1
	for line := range strings.Lines(stat) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		into, ok := map[string]*int64{"kernel": &kernel, "sock": &sock}[name]
		if !ok {
			continue
		}
		if *into, err = strconv.ParseInt(value, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("memory.stat: %s: %w", name, err)
		}
	}
	if kernel < 0 {
		return 0, 0, errNoKernel
	}
	return kernel, sock, nil
}

// Remove removes it once its processes have ended.
func (c Charge) Remove() error {
	if c.dir == "" || c.unified {
		return nil
	}
	if err := os.Remove(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
