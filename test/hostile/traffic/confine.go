// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Confinement is what a process takes upon itself before it opens a socket.
type Confinement struct {
	// Cgroups are directories of cgroups to join, of any hierarchy.
	Cgroups []string `json:",omitempty"`
	// CPU is the only processor to run on, counted from 1; 0: all.
	CPU int `json:",omitempty"`
	// Idle makes it run when nobody else wants to (SCHED_IDLE).
	Idle bool `json:",omitempty"`
	// Descriptors bounds how many it may open; 0: as it is.
	Descriptors uint64 `json:",omitempty"`
}

func (c *Confinement) enter() error {
	for _, dir := range c.Cgroups {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0); err != nil {
			return fmt.Errorf("join the cgroup %s: %w", dir, err)
		}
	}
	if c.Descriptors > 0 {
		limit := unix.Rlimit{Cur: c.Descriptors, Max: c.Descriptors}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return fmt.Errorf("limit descriptors to %d: %w", c.Descriptors, err)
		}
	}
	return c.schedule()
}

// schedule goes for all threads: those that come inherit it.
func (c *Confinement) schedule() error {
	if c.CPU == 0 && !c.Idle {
		return nil
	}
	// A collector that competes for the processor changes what is tried here.
	debug.SetGCPercent(400)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		var tid int
		if _, err := fmt.Sscan(t.Name(), &tid); err != nil {
			return err
		}
		if c.CPU > 0 {
			var set unix.CPUSet
			set.Set(c.CPU - 1)
			if err := unix.SchedSetaffinity(tid, &set); err != nil {
				return fmt.Errorf("stay on processor %d: %w", c.CPU-1, err)
			}
		}
		if c.Idle {
			if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
				return fmt.Errorf("schedule as idle: %w", err)
			}
		}
	}
	return nil
}
