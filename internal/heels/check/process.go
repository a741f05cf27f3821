// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/heels/pins"
)

// process is one that has something open.
type process struct {
	pid  int
	name string
	// started is when it was started, in clock ticks since boot.
	started uint64
}

func (p process) String() string { return fmt.Sprintf("process %d (%s)", p.pid, p.name) }

func processNames(list []process) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// processOf reads proc_pid_stat(5): number, name in parentheses, then from the third field on; the 22nd is when it was started.
func processOf(pid int) process {
	p := process{pid: pid, name: "unknown"}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p
	}
	_, rest, _ := strings.Cut(string(text), "(")
	at := strings.LastIndex(rest, ")")
	if at < 0 {
		return p
	}
	p.name = rest[:at]
	if fields := strings.Fields(rest[at+1:]); len(fields) > 19 {
		p.started, _ = strconv.ParseUint(fields[19], 10, 64)
	}
	return p
}

// holdersOf are the processes of this PID namespace that have a map open, but for this one, the one that was started last at the end.
func holdersOf(m *ebpf.Map) ([]process, error) {
	info, err := m.Info()
	if err != nil {
		return nil, err
	}
	id, ok := info.ID()
	if !ok {
		return nil, errors.New("the kernel does not tell the map's number")
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var list []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !hasMap(dir, fmt.Sprintf("map_id:\t%d\n", id)) {
			continue
		}
		list = append(list, processOf(pid))
	}
	slices.SortFunc(list, func(a, b process) int {
		if a.started != b.started {
			return int(min(max(int64(a.started)-int64(b.started), -1), 1))
		}
		return a.pid - b.pid
	})
	return list, nil
}

// hasMap says whether a descriptor of a process is of the map that proc_pid_fdinfo(5) shows by that line. Processes may end meanwhile.
func hasMap(dir, line string) bool {
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if err != nil || to != "anon_inode:bpf-map" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd.Name()))
		if err == nil && strings.Contains(string(text), line) {
			return true
		}
	}
	return false
}

// holderOf is who has the lock, by proc_locks(5): "1: FLOCK ADVISORY WRITE 708 08:01:131 0 EOF".
func holderOf(l *pins.Lock) (process, bool) {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return process{}, false
	}
	file, err := l.File()
	if err != nil {
		return process{}, false
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return processOf(pid), true
		}
	}
	return process{}, false
}
