// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// Process is what decides whether a process is balanced.
type Process struct {
	PID int
	// Name of its program, as ps shows it.
	Name string
	// Mount is where cgroup v2 is mounted, Cgroup its directory there. Cgroup is empty where it lies outside of what this process sees.
	Mount, Cgroup string
	// Container is what the paths of its cgroups say of its container and pod; empty where it is in none.
	Container pod.Identity
	// Netns is the cookie of its network namespace (SO_NETNS_COOKIE).
	Netns uint64
}

// FindProcess looks a process up, by its number as this process sees it. The error wraps fs.ErrNotExist where there is none. To enter its network namespace
// CAP_SYS_ADMIN is needed.
func FindProcess(pid int) (*Process, error) {
	name, err := os.ReadFile(procOf(pid, "comm"))
	if err != nil {
		return nil, noProcess(pid, err)
	}
	p := &Process{PID: pid, Name: strings.TrimSuffix(string(name), "\n")}
	if p.Mount, err = CgroupMount(); err != nil {
		return nil, err
	}
	cgroups, err := os.ReadFile(procOf(pid, "cgroup"))
	if err != nil {
		return nil, noProcess(pid, err)
	}
	p.Cgroup = cgroupBelow(p.Mount, string(cgroups))
	p.Container, _ = pod.ContainerOfProcess(string(cgroups))
	if p.Netns, err = netnsOf(procOf(pid, "ns/net")); err != nil {
		return nil, noProcess(pid, err)
	}
	return p, nil
}

func procOf(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

func noProcess(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// cgroupBelow is the directory of the cgroup of version 2 that /proc/PID/cgroup names (cgroups(7): "0::/path"). A path that leads up is one of another
// cgroup namespace.
func cgroupBelow(mount, cgroups string) string {
	for line := range strings.Lines(cgroups) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/")
		if !ok {
			continue
		}
		directory := filepath.Join(mount, path)
		if _, err := os.Stat(directory); err != nil || strings.HasPrefix(path, "..") {
			return ""
		}
		return directory
	}
	return ""
}

// netnsOf is the cookie of the network namespace that a file stands for.
func netnsOf(path string) (uint64, error) {
	namespace, err := netns.Open(path)
	if err != nil {
		return 0, err
	}
	defer namespace.Close()
	return namespace.Cookie()
}

// Ancestors are the directory of its cgroup and those above it, up to the mount.
func (p *Process) Ancestors() []string {
	var list []string
	for at := p.Cgroup; strings.HasPrefix(at, p.Mount); at = filepath.Dir(at) {
		list = append(list, at)
		if at == p.Mount {
			break
		}
	}
	return list
}

// HasMap reports whether the process has a map of the kernel's open, by what proc_pid_fdinfo(5) says of its descriptors.
func (p *Process) HasMap(id uint32) bool {
	infos, err := filepath.Glob(procOf(p.PID, "fdinfo/*"))
	if err != nil {
		return false
	}
	want := fmt.Sprintf("map_id:\t%d", id)
	for _, name := range infos {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // closed meanwhile
		}
		for line := range strings.Lines(string(text)) {
			if strings.TrimSuffix(line, "\n") == want {
				return true
			}
		}
	}
	return false
}
