// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestCgroupMountIsFoundOnUnifiedAndHybridHosts(t *testing.T) {
	const v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	tests := []struct {
		name, mountinfo, want string
	}{
		{"unified", "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup"},
		{"hybrid", v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"no optional field", "41 31 0:38 / /cg rw - cgroup2 none rw\n", "/cg"},
		{"several optional fields", "41 31 0:38 / /cg rw shared:1 master:2 - cgroup2 none rw\n", "/cg"},
		{"space in the path", `41 31 0:38 / /my\040cg rw - cgroup2 none rw` + "\n", "/my cg"},
		{"the whole before a part", "40 31 0:38 /a /part rw - cgroup2 none rw\n41 31 0:38 / /whole rw - cgroup2 none rw\n", "/whole"},
		{"a part alone", "40 31 0:38 /a /part rw - cgroup2 none rw\n", "/part"},
		{"a directory named cgroup2 of another type", "40 31 0:38 / /cgroup2 rw - tmpfs cgroup2 rw\n", ""},
		{"v1 only", v1, ""},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cgroupMount(strings.NewReader(tt.mountinfo))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if isMissing := errors.Is(err, ErrNoCgroup); isMissing != (tt.want == "") {
				t.Errorf("error: got %v", err)
			}
		})
	}
}

func TestCgroupMountOfThisHostIsACgroup(t *testing.T) {
	mount, err := CgroupMount()
	if errors.Is(err, ErrNoCgroup) {
		t.Skip("this host has no cgroup v2")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
		t.Error(err)
	}
}

func TestPrivileges(t *testing.T) {
	bits := func(list ...int) (mask uint64) {
		for _, b := range list {
			mask |= 1 << b
		}
		return mask
	}
	tests := []struct {
		name      string
		effective uint64
		want      Status
		lacking   string
	}{
		{"root", ^uint64(0), OK, ""},
		{"exactly what is needed", bits(unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON), OK, ""},
		{"CAP_SYS_ADMIN contains two", bits(unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN), OK, ""},
		{"CAP_SYS_ADMIN does not contain CAP_NET_ADMIN", bits(unix.CAP_SYS_ADMIN), Missing, "without CAP_NET_ADMIN"},
		{"none", 0, Missing, "without CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := judgePrivileges(tt.effective)
			if got.Status != tt.want || tt.lacking != "" && got.Detail != tt.lacking {
				t.Errorf("got %+v, want %s %q", got, tt.want, tt.lacking)
			}
		})
	}
}

func TestOtherNamespacesTakeTwoCapabilities(t *testing.T) {
	for effective, want := range map[uint64]Status{
		^uint64(0): OK, 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE: OK, 1 << unix.CAP_SYS_ADMIN: Degraded, 1 << unix.CAP_SYS_PTRACE: Degraded, 0: Degraded,
	} {
		if got := judgeNamespaces(effective); got.Status != want {
			t.Errorf("capabilities %x: got %+v, want %s", effective, got, want)
		}
	}
}

func TestEffectiveCapabilitiesAreReadFromStatus(t *testing.T) {
	got, err := effectiveCapabilities("Name:\txlb\nCapPrm:\t0000000000000001\nCapEff:\t000001fffeffffff\n")
	if err != nil || got != 0x1fffeffffff {
		t.Errorf("got %x, %v", got, err)
	}
	if _, err := effectiveCapabilities("Name:\txlb\n"); err == nil {
		t.Error("a status without CapEff is no error")
	}
}

func TestJudgements(t *testing.T) {
	rmem := sysctl{"net.core.rmem_max", 1 << 20, "slow"}
	tests := []struct {
		name string
		got  Result
		want Status
	}{
		{"recommended kernel", judgeKernel("6.12.0-5-amd64"), OK},
		{"newer major kernel", judgeKernel("7.0.1"), OK},
		{"supported kernel", judgeKernel("6.6.128"), Degraded},
		{"old kernel", judgeKernel("6.1.0-40-amd64"), Degraded},
		{"old major kernel", judgeKernel("5.15.0"), Degraded},
		{"strange kernel", judgeKernel("strange"), Degraded},
		{"memory lock is not used", judgeMemoryLock("6.1.0", 64<<10), OK},
		{"memory lock is too low", judgeMemoryLock("5.10.0", 64<<10), Degraded},
		{"memory lock is unlimited", judgeMemoryLock("5.10.0", unix.RLIM_INFINITY), OK},
		{"open files", judgeOpenFiles(1 << 20), OK},
		{"few open files", judgeOpenFiles(1024), Degraded},
		{"sysctl", rmem.judge("8388608"), OK},
		{"low sysctl", rmem.judge("212992"), Degraded},
		{"strange sysctl", rmem.judge("x"), Degraded},
		{"sysctl that does not exist", sysctl{name: "net.core.nosuch"}.check(), Degraded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got.Status != tt.want {
				t.Errorf("got %+v, want %s", tt.got, tt.want)
			}
		})
	}
}

func TestVerdictFollowsFromWhatIsMissing(t *testing.T) {
	found := func(name string, n need, s Status) probe {
		return probe{name, n, func() Result { return Result{Status: s} }}
	}
	tests := []struct {
		name   string
		probes []probe
		want   Verdict
	}{
		{"all there", []probe{found("a", needRun, OK), found("b", needFastPath, OK)}, FastPath},
		{"degraded", []probe{found("a", needRun, Degraded), found("b", needFastPath, Degraded)}, FastPath},
		{"fast path lacks something", []probe{found("a", needFastPath, Missing), found("b", needRun, OK)}, SlowPathOnly},
		{"everything lacks something", []probe{found("a", needFastPath, Missing), found("b", needRun, Missing)}, CannotRun},
		{"the worst wins in any order", []probe{found("a", needRun, Missing), found("b", needFastPath, Missing)}, CannotRun},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Verdict: FastPath}
			for _, p := range tt.probes {
				r.add(p)
			}
			if r.Verdict != tt.want {
				t.Errorf("got %q, want %q", r.Verdict, tt.want)
			}
		})
	}
}

func TestWithoutPrivilegesNothingElseIsTried(t *testing.T) {
	r := &Report{Verdict: FastPath}
	r.add(probe{"privileges", needRun, func() Result { return missing("without CAP_BPF", "run as root") }})
	r.add(probe{"btf", needFastPath, func() Result { t.Error("tried"); return Result{} }})
	want := &Report{Verdict: CannotRun, Results: []Result{
		{Name: "privileges", Status: Missing, Detail: "without CAP_BPF", Remedy: "run as root"},
		{Name: "btf", Status: Missing, Detail: "not tried without privileges"},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestThisKernelIsProbed runs every probe. On a kernel that the project recommends a
// probe that fails is a bug of the probe.
func TestThisKernelIsProbed(t *testing.T) {
	r := Run()
	if r.lacks("privileges") {
		t.Skip("needs CAP_BPF and CAP_NET_ADMIN")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); errors.Is(err, fs.ErrNotExist) || !atLeast(r.Kernel, recommendedKernel) {
		t.Skipf("needs a kernel of %s or newer with BTF; this is %s", recommendedKernel, r.Kernel)
	}
	for _, result := range r.Results {
		if result.Status == Missing && result.Name != "cgroup" {
			t.Errorf("%s: %s", result.Name, result.Detail)
		}
		if result.Status != OK && result.Remedy == "" {
			t.Errorf("%s: %s without a remedy", result.Name, result.Status)
		}
		t.Logf("%-22s %-9s %s", result.Name, result.Status, result.Detail)
	}
}
