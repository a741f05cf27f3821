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
	"time"
)

// Memory of a process in bytes.
type Memory struct {
	// PSS is the proportional set size, with the parts of programs and kernel maps that are mapped; Anonymous is what of it belongs to
	// no file and no map.
	PSS       int64 `json:"pss_bytes"`
	Anonymous int64 `json:"anonymous_bytes"`
	// Maps and Programs are what the kernel says its BPF maps and programs take that the process holds. Maps that are mapped into the
	// process are in PSS as well, as far as they have been touched.
	Maps     int64 `json:"maps_bytes"`
	Programs int64 `json:"programs_bytes"`
}

// Add adds another process's.
func (m *Memory) Add(other Memory) {
	m.PSS += other.PSS
	m.Anonymous += other.Anonymous
	m.Maps += other.Maps
	m.Programs += other.Programs
}

// Memory reads what the process takes, without its children.
func (p *Process) Memory() (Memory, error) { return memoryOf(p.cmd.Process.Pid) }

// MemoryWithChildren adds what its children take, as the workers of nginx and their like.
func (p *Process) MemoryWithChildren() (Memory, error) {
	total, err := p.Memory()
	if err != nil {
		return total, err
	}
	pid := strconv.Itoa(p.cmd.Process.Pid)
	// Children of the main thread; the others of a Go program's threads are none of a balancer.
	text, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if errors.Is(err, fs.ErrNotExist) {
		return total, nil
	}
	for _, child := range strings.Fields(string(text)) {
		id, err := strconv.Atoi(child)
		if err != nil {
			return total, err
		}
		m, err := memoryOf(id)
		if err != nil {
			return total, err
		}
		total.Add(m)
	}
	return total, err
}

func memoryOf(pid int) (m Memory, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return m, err
	}
	sizes := Sizes(string(text))
	m.PSS, m.Anonymous = sizes["Pss"], sizes["Pss_Anon"]
	infos, err := os.ReadDir(filepath.Join(dir, "fdinfo"))
	if err != nil {
		return m, err
	}
	seen := map[string]bool{}
	for _, info := range infos {
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", info.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return m, err
		}
		addLocked(&m, seen, string(text))
	}
	return m, nil
}

// addLocked adds the map or program that an fdinfo tells of, once (proc(5): map_id, prog_id and memlock).
func addLocked(m *Memory, seen map[string]bool, fdinfo string) {
	fields := map[string]string{}
	for line := range strings.Lines(fdinfo) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	locked, err := strconv.ParseInt(fields["memlock"], 10, 64)
	if err != nil {
		return
	}
	for _, kind := range []struct {
		id  string
		sum *int64
	}{{"map_id", &m.Maps}, {"prog_id", &m.Programs}} {
		id, ok := fields[kind.id]
		if !ok || seen[kind.id+id] {
			continue
		}
		seen[kind.id+id] = true
		*kind.sum += locked
	}
}

// Sizes reads lines of the form "Name:  123 kB", as /proc/meminfo and smaps have them, in bytes.
func Sizes(text string) map[string]int64 {
	sizes := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		number, isSize := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if n, err := strconv.ParseInt(number, 10, 64); ok && isSize && err == nil {
			sizes[name] = n << 10
		}
	}
	return sizes
}

// MachineMemory reads what the whole machine has in use, in bytes: everything that is not available, and the kernel's own.
func MachineMemory() (used, kernel int64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	sizes := Sizes(string(text))
	if sizes["MemAvailable"] == 0 {
		return 0, 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
	}
	used = sizes["MemTotal"] - sizes["MemAvailable"]
	for _, name := range []string{"SUnreclaim", "Percpu", "VmallocUsed", "KernelStack", "PageTables"} {
		kernel += sizes[name]
	}
	return used, kernel, nil
}

// StillMemory reads the machine's memory when the kernel has freed what the turn before has left, or has had its time for that.
func StillMemory() (used, kernel int64, err error) {
	const pause, tries, still = 250 * time.Millisecond, 20, 1 << 20
	for range tries {
		before := kernel
		if used, kernel, err = MachineMemory(); err != nil || max(kernel-before, before-kernel) < still {
			return used, kernel, err
		}
		time.Sleep(pause)
	}
	return used, kernel, nil
}

// Available is how much memory the machine can still give, in bytes.
func Available() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	available := Sizes(string(text))["MemAvailable"]
	if available == 0 {
		return 0, errors.New("/proc/meminfo has no MemAvailable")
	}
	return available, nil
}
