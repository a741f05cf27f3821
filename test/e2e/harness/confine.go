// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

// v1Root is where hybrid hosts have the controllers of cgroup v1.
const v1Root = "/sys/fs/cgroup"

// TCPMemoryLimit makes a cgroup whose sockets may take so many bytes of TCP memory together, and returns its directory, for a process to join
// before it opens sockets. Where the memory controller is v1's this limit is one of its own; with v2 it is that of all memory, and
// least is what the process needs besides.
func (p *Place) TCPMemoryLimit(t testing.TB, limit, least int) string {
	t.Helper()
	return p.limit(t, "memory",
		map[string]string{"memory.kmem.tcp.limit_in_bytes": fmt.Sprint(limit)},
		map[string]string{"memory.max": fmt.Sprint(limit + least)})
}

// TCPMemoryLimitAbove makes a cgroup within one whose sockets may take so many bytes of TCP memory, and returns the directory of the inner one, whose own limit
// is beyond reach: without one its sockets would not be counted. It needs the memory controller of cgroup v1.
func (p *Place) TCPMemoryLimitAbove(t testing.TB, limit int) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(v1Root, "memory", "cgroup.procs")); err != nil {
		t.Skip("needs the memory controller of cgroup v1, which has a limit of TCP memory")
	}
	return limitedCgroup(t, filepath.Join(p.TCPMemoryLimit(t, limit, 0), "inner"), map[string]string{"memory.kmem.tcp.limit_in_bytes": fmt.Sprint(1 << 30)})
}

// CPULimit makes a cgroup whose processes get so many hundredths of a processor together.
func (p *Place) CPULimit(t testing.TB, hundredths int) string {
	t.Helper()
	// Microseconds.
	const period = 20_000
	quota := period * hundredths / 100
	return p.limit(t, "cpu",
		map[string]string{"cpu.cfs_period_us": fmt.Sprint(period), "cpu.cfs_quota_us": fmt.Sprint(quota)},
		map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period)})
}

// limit makes a cgroup of the controller of v1, if that is there, or else, below the place's own, of v2, and writes its files.
func (p *Place) limit(t testing.TB, controller string, v1, v2 map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("%slimit-%d", prefix, cgroups.Add(1))
	if _, err := os.Stat(filepath.Join(v1Root, controller, "cgroup.procs")); err == nil {
		return limitedCgroup(t, filepath.Join(v1Root, controller, name), v1)
	}
	for _, above := range []string{filepath.Dir(p.Cgroup()), p.Cgroup()} {
		if err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			t.Skipf("needs the %s controller of cgroups: %v", controller, err)
		}
	}
	return limitedCgroup(t, filepath.Join(p.Cgroup(), name), v2)
}

func limitedCgroup(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Its processes are in the place, too, and end with it or before.
	t.Cleanup(func() {
		await.Quiet(t, func() string {
			if err := os.Remove(dir); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	for file, value := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value+"\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Join moves a process into a cgroup.
func Join(t testing.TB, dir string, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Appendln(nil, pid), 0); err != nil {
		t.Fatal(err)
	}
}

// Neighbour is a place in the same network namespace that is in another cgroup: what runs there is not balanced with this one.
func (p *Place) Neighbour(t testing.TB) *Place {
	t.Helper()
	return &Place{cgroup: newCgroup(t), ns: p.ns, Address: p.Address}
}

// TimeWaits is how many sockets of the place's network namespace wait for the end of their TIME_WAIT.
func (p *Place) TimeWaits(t testing.TB) (n int) {
	t.Helper()
	p.inside(t, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/sockstat")
		if err != nil {
			return err
		}
		var used, orphans int
		for line := range strings.Lines(string(text)) {
			if _, err := fmt.Sscanf(line, "TCP: inuse %d orphan %d tw %d", &used, &orphans, &n); err == nil {
				return nil
			}
		}
		return fmt.Errorf("sockstat has no TCP: %q", text)
	})
	return n
}
