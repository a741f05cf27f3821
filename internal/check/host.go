// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Versions of the kernel that the project tests on; see judgeKernel.
const (
	supportedKernel   = "6.6"
	recommendedKernel = "6.12"
)

// KernelRelease is the kernel's release, uname -r.
func KernelRelease() string {
	var name unix.Utsname
	// Uname of a valid buffer cannot fail.
	_ = unix.Uname(&name)
	return unix.ByteSliceToString(name.Release[:])
}

// judgeKernel compares a release with the versions that are tested. What a kernel can
// really do the probes find out.
func judgeKernel(release string) Result {
	switch {
	case atLeast(release, recommendedKernel):
		return ok(release)
	case atLeast(release, supportedKernel):
		return degraded(release+" is supported", recommendedKernel+" or newer is recommended")
	default:
		return degraded(release+" is older than "+supportedKernel+", the oldest supported", "boot "+recommendedKernel+" or newer")
	}
}

// atLeast compares the first two numbers of a release.
func atLeast(release, version string) bool {
	haveMajor, haveMinor := majorMinor(release)
	wantMajor, wantMinor := majorMinor(version)
	return haveMajor > wantMajor || haveMajor == wantMajor && haveMinor >= wantMinor
}

func majorMinor(version string) (major, minor int) {
	// Whatever does not parse counts as 0: too old.
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	return major, minor
}

// capability is a bit of capabilities(7).
type capability struct {
	name string
	bit  int
}

// capabilities that XLB needs. CAP_SYS_ADMIN contains CAP_BPF and CAP_PERFMON.
var (
	sysAdmin     = capability{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}
	capabilities = []capability{
		{"CAP_BPF", unix.CAP_BPF},
		{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
		{"CAP_PERFMON", unix.CAP_PERFMON},
	}
)

// Privileged reports whether this process has the capabilities that XLB needs.
func Privileged() bool { return privileges().Status == OK }

// Privileges is an error that names the capabilities that this process lacks, and nil without any. To ask the kernel alone does not do: it lets a process
// without CAP_NET_ADMIN, but with CAP_SYS_ADMIN, load and attach everything.
func Privileges() error {
	if r := privileges(); r.Status != OK {
		return fmt.Errorf("XLB needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON); this process is %s; %s", r.Detail, r.Remedy)
	}
	return nil
}

// MayEnterNamespaces reports whether this process may open sockets in the network namespaces of other processes, for which CAP_SYS_ADMIN is needed
// (setns(2)), and CAP_SYS_PTRACE (namespaces(7), of the files in /proc/PID/ns).
func MayEnterNamespaces() (bool, error) {
	effective, err := ownCapabilities()
	return mayEnterNamespaces(effective), err
}

func mayEnterNamespaces(effective uint64) bool {
	const both = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE
	return effective&both == both
}

func namespaces() Result {
	effective, err := ownCapabilities()
	if err != nil {
		return missing(err.Error(), "mount /proc")
	}
	return judgeNamespaces(effective)
}

func judgeNamespaces(effective uint64) Result {
	if !mayEnterNamespaces(effective) {
		return degraded("the daemon's own alone: without CAP_SYS_ADMIN and CAP_SYS_PTRACE", "grant both where processes of pods or containers are to be balanced")
	}
	return ok("all: CAP_SYS_ADMIN, CAP_SYS_PTRACE")
}

func privileges() Result {
	effective, err := ownCapabilities()
	if err != nil {
		return missing(err.Error(), "mount /proc")
	}
	return judgePrivileges(effective)
}

// ownCapabilities is the mask of this process's.
func ownCapabilities() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	return effectiveCapabilities(string(status))
}

// effectiveCapabilities reads the mask from the text of /proc/self/status.
func effectiveCapabilities(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if text, found := strings.CutPrefix(line, "CapEff:"); found {
			return strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		}
	}
	return 0, errors.New("/proc/self/status has no CapEff")
}

func judgePrivileges(effective uint64) Result {
	has := func(c capability) bool { return effective&(1<<c.bit) != 0 }
	var lacking []string
	for _, c := range capabilities {
		if !has(c) && (c.bit == unix.CAP_NET_ADMIN || !has(sysAdmin)) {
			lacking = append(lacking, c.name)
		}
	}
	if len(lacking) > 0 {
		return missing("without "+strings.Join(lacking, ", "), "run as root, or grant CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")
	}
	return ok("CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON")
}

func cgroupV2() Result {
	mount, err := CgroupMount()
	if err != nil {
		return missing("not mounted", mountRemedy)
	}
	return ok(mount)
}

const mountRemedy = "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1"

// ErrNoCgroup says that cgroup v2 is not mounted.
var ErrNoCgroup = errors.New("cgroup v2 is not mounted: " + mountRemedy)

// CgroupMount returns the directory where cgroup v2 is mounted, on hybrid hosts the
// one beside the v1 controllers. Mounts of a whole hierarchy come before mounts of a
// part. The error is ErrNoCgroup, or wraps one of reading /proc/self/mountinfo.
func CgroupMount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup v2: %w; mount /proc", err)
	}
	defer f.Close()
	return cgroupMount(f)
}

// cgroupMount reads proc_pid_mountinfo(5): … (4) root (5) mount point … "-" (9) type.
func cgroupMount(mountinfo io.Reader) (string, error) {
	part := ""
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, point := fields[3], unescape(fields[4])
		if root == "/" {
			return point, nil
		}
		if part == "" {
			part = point
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("find cgroup v2: %w", err)
	}
	if part == "" {
		return "", ErrNoCgroup
	}
	return part, nil
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
