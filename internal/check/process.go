// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is what decides whether a process is balanced.
type Process struct {
	PID int
	// Name of its program, as ps shows it.
	Name string
	// Mount is where cgroup v2 is mounted, Cgroup its directory there. Cgroup is empty where it lies outside of what this process sees.
	Mount, Cgroup string
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
	if p.Netns, err = netnsCookie(procOf(pid, "ns/net")); err != nil {
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

// netnsCookie enters a network namespace, on a thread that ends with that, to ask for its cookie: the kernel tells it of a socket's alone.
func netnsCookie(path string) (uint64, error) {
	namespace, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer namespace.Close()
	type answer struct {
		cookie uint64
		err    error
	}
	asked := make(chan answer)
	go func() {
		// Never unlocked: a thread that has been elsewhere is not used again.
		runtime.LockOSThread()
		cookie, err := cookieIn(int(namespace.Fd()))
		asked <- answer{cookie, err}
	}()
	a := <-asked
	return a.cookie, a.err
}

func cookieIn(namespace int) (uint64, error) {
	if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("enter its network namespace: %w", err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket in its network namespace: %w", err)
	}
	defer unix.Close(socket)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read the cookie of its network namespace: %w", err)
	}
	return cookie, nil
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
