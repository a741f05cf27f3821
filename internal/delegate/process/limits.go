// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Limits bound what the processes of a Confinement take together.
type Limits struct {
	// Memory is in bytes, of which the kernel takes whole pages; what is beyond it is not swapped out, but ends the process. 0: no bound.
	Memory uint64
	// CPUs is in processors, at least 0.01. 0: no bound.
	CPUs float64
}

const (
	// maxTasks bounds processes and threads of a Confinement. Envoy has a thread for each processor and some more, and two run while one follows the other.
	maxTasks = 1024
	// cpuPeriod is the kernel's default for bounds of processor time, in microseconds, and leastCPUs what gives its least quota for that, 1 ms.
	cpuPeriod = 100_000
	leastCPUs = 0.01
	// mostCPUs is beyond all machines, and far from what overflows.
	mostCPUs = 1 << 20
)

func (l Limits) check() error {
	if l.CPUs == 0 || l.CPUs >= leastCPUs && l.CPUs <= mostCPUs {
		return nil
	}
	return fmt.Errorf("%v processors cannot be a bound: 0 (none), or %v and more", l.CPUs, leastCPUs)
}

// controller is one of the kernel's that Limits are kept by.
type controller struct {
	name string
	// flag is that of `xlb run` which asks for it; empty: it is used where it can be had.
	flag string
	// unified and legacy are what is set in the cgroup of version 2, or 1, that all processes are below.
	unified, legacy []setting
}

// setting is a file of a cgroup and what is written to it.
type setting struct {
	file, value string
	// optional is for files that not all kernels have.
	optional bool
}

// controllers are those that a Confinement uses.
func (l Limits) controllers() []controller {
	tasks := []setting{{file: "pids.max", value: strconv.Itoa(maxTasks)}}
	used := []controller{l.memory(), {name: "pids", unified: tasks, legacy: tasks}}
	if l.CPUs > 0 {
		used = append(used, l.cpu())
	}
	return used
}

// memoryController is also used without a bound: for what Confinement.Memory says.
const memoryController = "memory"

func (l Limits) memory() controller {
	if l.Memory == 0 {
		return controller{name: memoryController}
	}
	bytes := strconv.FormatUint(l.Memory, 10)
	return controller{
		name: memoryController, flag: "--delegate-memory",
		unified: []setting{{file: "memory.max", value: bytes}, {file: "memory.swap.max", value: "0", optional: true}},
		// The bound with swap may not be below the one without: it goes last.
		legacy: []setting{{file: "memory.limit_in_bytes", value: bytes}, {file: "memory.memsw.limit_in_bytes", value: bytes, optional: true}},
	}
}

func (l Limits) cpu() controller {
	quota, period := strconv.FormatInt(int64(l.CPUs*cpuPeriod), 10), strconv.Itoa(cpuPeriod)
	return controller{
		name: "cpu", flag: "--delegate-cpus",
		unified: []setting{{file: "cpu.max", value: quota + " " + period}},
		legacy:  []setting{{file: "cpu.cfs_period_us", value: period}, {file: "cpu.cfs_quota_us", value: quota}},
	}
}

// errNoController is that of a controller which no hierarchy has.
var errNoController = errors.New("no cgroup hierarchy has the controller")

// bound makes the cgroups of version 1 that are needed, and sets the bounds.
func (c *Confinement) bound(h hierarchies, name string) error {
	for _, k := range c.limits.controllers() {
		err := c.use(k, h, name)
		if err != nil && k.flag != "" {
			return fmt.Errorf("%s cannot be bounded: %w; mount cgroup v2 with the %s controller, or %s=0", k.name, err, k.name, k.flag)
		}
	}
	return nil
}

// use sets the bounds of a controller, where it is.
func (c *Confinement) use(k controller, h hierarchies, name string) error {
	legacy, isLegacy := h.legacy[k.name]
	switch {
	case h.unified.has("cgroup.controllers", k.name):
		return c.useUnified(k, h.unified)
	case isLegacy:
		return c.useLegacy(k, legacy.below(name))
	}
	return errNoController
}

func (c *Confinement) useUnified(k controller, root group) error {
	if err := root.enable(k.name); err != nil {
		return err
	}
	if err := c.groups.unified.apply(k.unified); err != nil {
		return err
	}
	if k.name != memoryController {
		return nil
	}
	// Each process has an account of its own, and ends whole when memory has run out.
	if err := c.groups.unified.enable(k.name); err != nil {
		return err
	}
	c.memory = account{c.groups.unified, "memory.current", "memory.events", true}
	return nil
}

// enable has the cgroups directly below use a controller.
func (g group) enable(controller string) error {
	if g.has("cgroup.subtree_control", controller) {
		return nil
	}
	return g.set("cgroup.subtree_control", "+"+controller)
}

func (c *Confinement) useLegacy(k controller, g group) error {
	// One hierarchy may have several controllers, as "cpu,cpuacct".
	if !slices.Contains(c.groups.legacy, g) {
		if err := g.create(); err != nil {
			return err
		}
		c.groups.legacy = append(c.groups.legacy, g)
	}
	if err := g.apply(k.legacy); err != nil {
		return err
	}
	if k.name == memoryController {
		c.memory = account{g, "memory.usage_in_bytes", "memory.oom_control", false}
	}
	return nil
}

// apply writes settings.
func (g group) apply(settings []setting) error {
	for _, s := range settings {
		err := g.set(s.file, s.value)
		if s.optional && isGone(err) {
			continue // this kernel does not have it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// account is where the kernel counts the memory of a cgroup. The zero one is that of a host that does not.
type account struct {
	of            group
	usage, events string
	// isUnified: of version 2, which can end a cgroup whole.
	isUnified bool
}

func (a account) below(name string) account {
	if a.of != "" {
		a.of = a.of.below(name)
	}
	return a
}

// used is in bytes.
func (a account) used() uint64 {
	if a.of == "" {
		return 0
	}
	return a.of.number(a.usage)
}

// kills is how many processes the kernel has killed since memory had run out.
func (a account) kills() uint64 {
	if a.of == "" {
		return 0
	}
	return a.of.count(a.events, "oom_kill")
}

// endWhole has the kernel kill all processes of the cgroup where it kills one for want of memory.
func (a account) endWhole() error {
	if !a.isUnified {
		return nil
	}
	return a.of.set("memory.oom.group", "1")
}
