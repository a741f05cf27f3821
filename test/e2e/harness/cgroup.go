// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/machine"
	"github.com/xlb-project/xlb/test/violation"
)

// prefix begins the name of everything that this process makes. In a run of scripts/isolate, which removes by it what a killed run left,
// the number of the run comes first: processes of two runs may have the same number.
var prefix = func() string {
	if run := os.Getenv(machine.RunVariable); run != "" {
		return fmt.Sprintf("xlb-e2e-r%s-%d-", run, os.Getpid())
	}
	return fmt.Sprintf("xlb-e2e-%d-", os.Getpid())
}()

var cgroups atomic.Int64

// cgroupRoot finds the mount of cgroup v2, which on hybrid hosts lies beside
// the v1 controllers.
func cgroupRoot() (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup v2: %w", err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		// proc(5): … (5) mount point … "-" (9) type
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) >= 5 {
			return fields[4], nil
		}
	}
	return "", errors.New("find cgroup v2: it is not mounted; mount it with: mount -t cgroup2 none /sys/fs/cgroup")
}

// CgroupPath is a path in cgroup v2 for a cgroup that a test makes itself; Main removes it, and fails, if the test does not.
func CgroupPath(t testing.TB, name string) string {
	t.Helper()
	root, err := cgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, fmt.Sprintf("%s%d-%s", prefix, cgroups.Add(1), name))
}

// cgroup is a directory of cgroup v2 that belongs to one test.
type cgroup struct {
	path string
	dir  *os.File

	mu sync.Mutex
	// checks run when all processes in it have ended.
	checks []func(testing.TB)
}

// atEnd has something checked when all processes in the cgroup have ended.
func (c *cgroup) atEnd(check func(testing.TB)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks = append(c.checks, check)
}

func newCgroup(t testing.TB) *cgroup {
	t.Helper()
	root, err := cgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	return newCgroupAt(t, filepath.Join(root, fmt.Sprintf("%s%d", prefix, cgroups.Add(1))))
}

func newCgroupAt(t testing.TB, path string) *cgroup {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatalf("make a cgroup (the tests need root): %v", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &cgroup{path: path, dir: dir}
	t.Cleanup(func() { c.remove(t) })
	return c
}

// remove ends what still runs, checks that nothing stayed attached, and
// removes the directory.
func (c *cgroup) remove(t testing.TB) {
	c.checkEmpty(t, 60*time.Second)
	for _, check := range c.checks {
		check(t)
	}
	for _, what := range c.attached(t) {
		violation.Errorf(t, "%s is still attached to the cgroup of the test", what)
	}
	if err := c.dir.Close(); err != nil {
		t.Error(err)
	}
	if err := programs.RemoveCgroup(c.path); err != nil {
		t.Error(err)
	}
}

// checkEmpty fails the test when a process outlives the one that the harness
// started and ended. A child of an ended process follows it at once, where it
// gets a processor.
func (c *cgroup) checkEmpty(t testing.TB, patience time.Duration) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		procs, err := os.ReadFile(filepath.Join(c.path, "cgroup.procs"))
		if err != nil {
			t.Error(err)
			return
		}
		if len(procs) == 0 {
			return
		}
		if time.Now().After(deadline) {
			violation.Errorf(t, "processes outlive the test: %q", strings.Fields(string(procs)))
			return
		}
	}
}

// cgroupHooks are the places in a cgroup where a program can hang.
var cgroupHooks = []ebpf.AttachType{
	ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupInetEgress, ebpf.AttachCGroupInetSockCreate,
	ebpf.AttachCgroupInetSockRelease, ebpf.AttachCGroupSockOps, ebpf.AttachCGroupDevice,
	ebpf.AttachCGroupInet4Bind, ebpf.AttachCGroupInet6Bind,
	ebpf.AttachCGroupInet4PostBind, ebpf.AttachCGroupInet6PostBind,
	ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect,
	ebpf.AttachCgroupInet4GetPeername, ebpf.AttachCgroupInet6GetPeername,
	ebpf.AttachCgroupInet4GetSockname, ebpf.AttachCgroupInet6GetSockname,
	ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg,
	ebpf.AttachCGroupUDP4Recvmsg, ebpf.AttachCGroupUDP6Recvmsg,
	ebpf.AttachCGroupSysctl, ebpf.AttachCGroupGetsockopt, ebpf.AttachCGroupSetsockopt,
}

// attached names the programs that hang in the cgroup itself.
func (c *cgroup) attached(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, hook := range cgroupHooks {
		result, err := link.QueryPrograms(link.QueryOptions{Target: int(c.dir.Fd()), Attach: hook})
		if err != nil {
			t.Errorf("ask what is attached at %v of the cgroup: %v", hook, err)
			continue
		}
		for _, p := range result.Programs {
			found = append(found, fmt.Sprintf("program %d at %v", p.ID, hook))
		}
	}
	return found
}
