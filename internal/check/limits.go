// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// RecommendedFiles is a number of descriptors: one for each client connection and for
// each pooled connection, and an eighth of them for all i-socks that there may be.
const RecommendedFiles = 262144

// sysctl is a setting of the kernel below which something degrades.
type sysctl struct {
	name string
	// least recommended value, in the setting's own unit.
	least uint64
	// degrades says what suffers below it.
	degrades string
}

var sysctls = []sysctl{
	{"net.core.rmem_max", 1280 << 10, "long responses from other hosts take the slow path when the client reads slowly"},
	{"net.core.wmem_max", 1 << 20, "large request bodies to other hosts take the slow path"},
	{"net.core.somaxconn", 4096, "bursts of new connections wait for a repeated SYN"},
}

func limitProbes() []probe {
	probes := []probe{
		{"memory lock limit", needNothing, memoryLock},
		{"memory limit", needNothing, memoryLimit},
		{"open files limit", needNothing, openFiles},
	}
	for _, s := range sysctls {
		probes = append(probes, probe{s.name, needNothing, s.check})
	}
	return probes
}

// memoryLock matters only to kernels that charge BPF memory to RLIMIT_MEMLOCK; since
// 5.11 it is charged to the memory cgroup.
func memoryLock() Result {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return degraded(err.Error(), "")
	}
	return judgeMemoryLock(KernelRelease(), limit.Max)
}

func judgeMemoryLock(release string, limit uint64) Result {
	switch {
	case atLeast(release, "5.11"):
		return ok("not used by this kernel")
	case limit == unix.RLIM_INFINITY:
		return ok("unlimited")
	default:
		return degraded(fmt.Sprintf("%d KiB", limit>>10), "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit")
	}
}

// openFiles looks at the hard limit: the soft one is raised to it at start.
func openFiles() Result {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return degraded(err.Error(), "")
	}
	return judgeOpenFiles(limit.Max)
}

func judgeOpenFiles(limit uint64) Result {
	if limit >= RecommendedFiles {
		return ok(strconv.FormatUint(limit, 10))
	}
	return degraded(fmt.Sprintf("%d: bounds client and pooled connections together", limit),
		fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%d in the unit", RecommendedFiles, RecommendedFiles))
}

func (s sysctl) check() Result {
	path := filepath.Join("/proc/sys", strings.ReplaceAll(s.name, ".", "/"))
	text, err := os.ReadFile(path)
	if err != nil {
		// A network namespace may not show it; the host's value applies.
		return degraded(err.Error(), fmt.Sprintf("check on the host: sysctl %s", s.name))
	}
	return s.judge(strings.TrimSpace(string(text)))
}

func (s sysctl) judge(text string) Result {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return degraded(fmt.Sprintf("%q is no number", text), "")
	}
	if value >= s.least {
		return ok(text)
	}
	return degraded(fmt.Sprintf("%d: %s", value, s.degrades), fmt.Sprintf("sysctl -w %s=%d", s.name, s.least))
}
