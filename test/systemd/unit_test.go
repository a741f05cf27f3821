// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

const (
	unit       = "../../examples/xlb.service"
	heelsUnit  = "../../examples/heels/xlb-heels.service"
	adminURL   = "http://127.0.0.1:9901"
	configFile = "/etc/xlb/envoy.yaml"

	// deniedIsFatal has a system call that a unit denies end the process, in place of failing: what is denied is then not needed anywhere.
	deniedIsFatal = "[Service]\nSystemCallErrorNumber=kill\nRestart=no\n"
)

var (
	// service is an address that nothing has but XLB's configuration; servers are at the machine's own, and pods at others.
	service    = netip.MustParseAddrPort("10.96.0.80:80")
	own        = netip.MustParseAddr("10.244.1.1")
	podAddress = netip.MustParseAddr("10.244.2.2")
)

// The daemon balances, sees a pod that comes, reloads, answers and leaves nothing under the unit that XLB ships, and does nothing there that the unit denies:
// a denied system call ends it in the first run.
func TestTheDaemonRunsUnderItsUnit(t *testing.T) {
	h := boot(t)
	h.run(t, "ip", "addr", "add", own.String()+"/32", "dev", "lo")
	var endpoints []netip.AddrPort
	for i, identity := range []string{"a", "b", "c"} {
		at := netip.AddrPortFrom(own, uint16(8081+i))
		h.serve(t, identity, at.String())
		endpoints = append(endpoints, at)
	}
	h.share(t, unit, "xlb.service", 0o644)
	h.put(t, "xlb", "/usr/local/bin/xlb", "755")
	h.put(t, "xlb.service", "/etc/systemd/system/xlb.service", "644")
	for _, tt := range []struct {
		name, dropIn string
		// long: it is left to make test-all.
		long bool
	}{
		{"what is denied is fatal", deniedIsFatal, false},
		{"as shipped", "", true},
		{"in user space", deniedIsFatal + "ExecStart=\nExecStart=/usr/local/bin/xlb run --config " + configFile + " --fast-path=off\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long {
				suite.Long(t, suite.Depth)
			}
			limits := limits(t)
			h.write(t, "test.conf", []byte(tt.dropIn+limits), 0o644)
			h.put(t, "test.conf", "/etc/systemd/system/xlb.service.d/test.conf", "644")
			h.run(t, "systemctl", "daemon-reload")
			play(t, h, endpoints, !strings.Contains(tt.dropIn, "--fast-path=off"), limits != "")
		})
	}
}

// limits are those of the unit where this machine's root may set them: without CAP_SYS_RESOURCE it may raise none, in any namespace.
func limits(t *testing.T) string {
	t.Helper()
	var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		return ""
	}
	var files, nice unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NICE, &nice)); err != nil {
		t.Fatal(err)
	}
	t.Logf("no CAP_SYS_RESOURCE: the unit runs with this machine's limits of descriptors (%d) and niceness (%d)", files.Max, nice.Max)
	return fmt.Sprintf("[Service]\nLimitNOFILE=%d\nLimitNICE=%d\n", files.Max, nice.Max)
}

// play is the daemon's life. fast: the kernel serves; limited: the machine lets the unit raise no limit.
func play(t *testing.T, h *host, endpoints []netip.AddrPort, fast, limited bool) {
	t.Helper()
	h.configure(t, endpoints[:2]...)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			h.run(t, "systemctl", "stop", "xlb")
		}
		if t.Failed() {
			t.Log(h.run(t, "journalctl", "--no-pager"))
		}
	})
	h.run(t, "systemctl", "start", "xlb")
	h.awaitReady(t, "xlb", adminURL)
	pids := h.pids(t, "xlb.service")
	if len(pids) != 1 {
		t.Fatalf("processes of the unit: got %v, want one", pids)
	}
	requireConfined(t, unit, pids[0])

	const requests = 1000
	report := h.load(t, programs.LoadSpec{Address: service.String(), Requests: requests})
	requireServed(t, report, map[string]int{"a": requests / 2, "b": requests / 2})
	if served := h.metric(t, `xlb_requests_total{path="fast"}`); fast && served < 0.9*requests || !fast && served != 0 {
		t.Errorf("requests that the kernel has served: got %v of %d, want nine of ten: %t", served, requests, fast)
	}

	h.plugPod(t)
	await.Quiet(t, func() string {
		if n := h.metric(t, "xlb_workloads_active"); n != 1 {
			return fmt.Sprintf("workloads: got %v, want the pod", n)
		}
		return ""
	})
	report = h.load(t, programs.LoadSpec{Address: service.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}}, "NetworkNamespacePath=/run/netns/pod")
	requireServed(t, report, map[string]int{fmt.Sprintf("a from %s", podAddress): requests / 2, fmt.Sprintf("b from %s", podAddress): requests / 2})

	h.configure(t, endpoints[2])
	h.run(t, "systemctl", "reload", "xlb")
	await.Quiet(t, func() string {
		report := h.load(t, programs.LoadSpec{Address: service.String(), Requests: 1})
		if report.Failed > 0 || report.Served[0]["c"] != 1 {
			return fmt.Sprintf("behind the reload: %+v", report.Served)
		}
		return ""
	})
	for _, what := range []string{"listeners", "routes", "clusters", "endpoints", "pools", "connections", "workloads", "quotas", "guards", "config", "notes", "stats"} {
		h.run(t, "xlb", "get", what)
	}

	objects := harness.ObjectsOf(t, pids[0])
	if fast && len(objects) == 0 {
		t.Error("the daemon holds no programs and maps")
	}
	stopped = true
	// The daemon that replaces this one has its admin socket there.
	h.run(t, "touch", "/run/xlb/another")
	h.run(t, "systemctl", "stop", "xlb")
	h.run(t, "rm", "/run/xlb/another")
	if result := h.run(t, "systemctl", "show", "--property=ActiveState,Result,NRestarts", "xlb"); !strings.Contains(result, "Result=success\n") ||
		!strings.Contains(result, "NRestarts=0\n") || !strings.Contains(result, "ActiveState=inactive\n") {
		t.Errorf("the unit behind its end: %s", result)
	}
	await.Within(t, harness.FreedWithin, func() string {
		if n := objects.Left(); n > 0 {
			return fmt.Sprintf("%d programs, maps and links of the daemon are still in the kernel", n)
		}
		return ""
	})
	h.run(t, "ip", "netns", "delete", "pod")
	if names := h.run(t, "ls", "/run/netns"); names != "" {
		t.Errorf("names of network namespaces: %s", names)
	}
	for line := range strings.Lines(h.log(t)) {
		// Where limits cannot be raised there is no niceness either.
		if limited && strings.Contains(line, "set niceness") {
			continue
		}
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("the daemon has logged: %s", line)
		}
	}
	h.run(t, "journalctl", "--rotate", "--vacuum-time=1us")
}

// awaitReady waits until a unit's process says that it is ready, and fails the test at once where it has ended.
func (h *host) awaitReady(t *testing.T, unit, admin string) {
	t.Helper()
	await.Quiet(t, func() string {
		if state, _ := h.command("systemctl", "is-active", unit).Output(); strings.TrimSpace(string(state)) != "active" {
			t.Fatalf("%s is %s", unit, state)
		}
		if output, err := h.command("curl", "--silent", "--show-error", "--fail", admin+"/ready").CombinedOutput(); err != nil {
			return fmt.Sprintf("%s is not ready: %s", unit, output)
		}
		return ""
	})
}

// configure writes the daemon's file.
func (h *host) configure(t *testing.T, endpoints ...netip.AddrPort) {
	t.Helper()
	h.write(t, "envoy.yaml", harness.YAML(t, harness.OneCluster(service, endpoints...)), 0o644)
	h.put(t, "envoy.yaml", configFile, "600")
}

// log is what the daemon has written.
func (h *host) log(t *testing.T) string {
	t.Helper()
	return h.run(t, "journalctl", "--unit=xlb", "--output=cat", "--no-pager")
}

// metric is the value of a line of /metrics; 0 without such a line.
func (h *host) metric(t *testing.T, name string) float64 {
	t.Helper()
	text := h.run(t, "curl", "--silent", "--show-error", "--fail", adminURL+"/metrics")
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	return 0
}

// plugPod makes a network namespace with a name, as a container runtime does.
func (h *host) plugPod(t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"netns add pod",
		"-n pod link set lo up",
		"link add pod type veth peer name eth0 netns pod",
		"link set pod up",
		"-n pod link set eth0 up",
		"-n pod addr add " + podAddress.String() + "/32 dev eth0",
		"-n pod route add " + own.String() + " dev eth0",
		"route add " + podAddress.String() + " dev pod",
	} {
		h.run(t, append([]string{"ip"}, strings.Fields(line)...)...)
	}
}

func requireServed(t *testing.T, report programs.LoadReport, want map[string]int) {
	t.Helper()
	if report.Failed > 0 {
		t.Errorf("%d of %d requests failed, first: %v", report.Failed, report.Total, report.Failures[0])
	}
	for body, n := range want {
		if got := report.Served[0][body]; got != n {
			t.Errorf("requests served by %q: got %d, want %d: %v", body, got, n, report.Served)
		}
	}
	if len(report.Peers) != 1 {
		t.Errorf("getpeername: got %v, want one", report.Peers)
	}
}

// capabilityBits are those that units name.
var capabilityBits = map[string]int{
	"CAP_BPF": unix.CAP_BPF, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE, "CAP_NET_RAW": unix.CAP_NET_RAW,
}

// setting are the words of a setting of a shipped unit.
func setting(t *testing.T, unit, name string) []string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+"="); found {
			return strings.Fields(value)
		}
	}
	t.Fatalf("%s has no %s", unit, name)
	return nil
}

// requireConfined fails unless systemd has applied the unit to each thread of a process: what it denies is denied.
func requireConfined(t *testing.T, unit string, pid int) {
	t.Helper()
	var mask uint64
	for _, name := range setting(t, unit, "CapabilityBoundingSet") {
		bit, known := capabilityBits[name]
		if !known {
			t.Fatalf("%s has %s, which this test does not know", unit, name)
		}
		mask |= 1 << bit
	}
	capabilities, none := fmt.Sprintf("%016x", mask), fmt.Sprintf("%016x", 0)
	want := map[string]string{
		"CapInh": none, "CapPrm": capabilities, "CapEff": capabilities, "CapBnd": capabilities, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) < 2 {
		t.Fatalf("threads: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			if expected, known := want[name]; known && value != expected {
				t.Errorf("%s of a thread: got %s, want %s", name, value, expected)
			}
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/", "/proc/sys", "/sys/fs/cgroup"} {
		if !mountedReadOnly(string(mounts), at) {
			t.Errorf("%s is not read-only there:\n%s", at, mounts)
		}
	}
}

// mountedReadOnly reads proc_pid_mountinfo(5): … (5) mount point (6) options.
func mountedReadOnly(mounts, at string) bool {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 5 && fields[4] == at && slices.Contains(strings.Split(fields[5], ","), "ro") {
			return true
		}
	}
	return false
}

const (
	heelsAdminURL = "http://127.0.0.1:15001"
	// heelsPins is a directory of /sys/fs/bpf.
	heelsPins       = "xlb-heels"
	heelsConfigFile = "/etc/xlb/heels.yaml"
	heelsConfig     = `kind: heels
cgroup: /sys/fs/cgroup
interfaces: [wire]
client:
  vips:
  - { vip: 10.77.0.100:80, backends: [10.77.0.0/24] }
server:
  address: 10.77.0.2
  vips:
  - { vip: 10.77.0.101:80, port: 8080, mode: rewritten, balancers: [10.77.0.1/32], clients: [10.77.0.0/24], confirm: true }
`
)

// The agent of a host attaches, reloads and ends under its unit; its programs stay, as they are to, and can be detached.
func TestTheHEELSAgentRunsUnderItsUnit(t *testing.T) {
	suite.Long(t, suite.Slow)
	h := boot(t)
	for _, line := range []string{"link add wire type veth peer name other", "link set wire up", "link set other up", "addr add 10.77.0.2/24 dev wire"} {
		h.run(t, append([]string{"ip"}, strings.Fields(line)...)...)
	}
	h.share(t, heelsUnit, "xlb-heels.service", 0o644)
	h.put(t, "xlb", "/usr/local/bin/xlb", "755")
	h.put(t, "xlb-heels.service", "/etc/systemd/system/xlb-heels.service", "644")
	h.write(t, "heels.yaml", []byte(heelsConfig), 0o644)
	h.put(t, "heels.yaml", heelsConfigFile, "600")
	for _, tt := range []struct{ name, dropIn string }{{"what is denied is fatal", deniedIsFatal}, {"as shipped", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			h.write(t, "test.conf", []byte(tt.dropIn), 0o644)
			h.put(t, "test.conf", "/etc/systemd/system/xlb-heels.service.d/test.conf", "644")
			h.run(t, "systemctl", "daemon-reload")
			playHEELS(t, h)
		})
	}
}

func playHEELS(t *testing.T, h *host) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.run(t, "journalctl", "--no-pager", "--unit=xlb-heels"))
		}
	})
	h.run(t, "systemctl", "start", "xlb-heels")
	h.awaitReady(t, "xlb-heels", heelsAdminURL)
	requireConfined(t, heelsUnit, h.pids(t, "xlb-heels.service")[0])
	log := func() string {
		return h.run(t, "journalctl", "--no-pager", "--unit=xlb-heels", "--output=cat")
	}
	reloads := strings.Count(log(), "configuration reloaded")
	h.run(t, "systemctl", "reload", "xlb-heels")
	await.Quiet(t, func() string {
		if strings.Count(log(), "configuration reloaded") == reloads {
			return "the log does not say that the configuration was reloaded"
		}
		return ""
	})
	h.run(t, "systemctl", "stop", "xlb-heels")
	if result := h.run(t, "systemctl", "show", "--property=ActiveState,Result,NRestarts", "xlb-heels"); !strings.Contains(result, "Result=success\n") ||
		!strings.Contains(result, "NRestarts=0\n") || !strings.Contains(result, "ActiveState=inactive\n") {
		t.Errorf("the unit behind its end: %s", result)
	}
	if pins := h.run(t, "ls", "/sys/fs/bpf"); !strings.Contains(pins, heelsPins) {
		t.Errorf("the agent has left no programs: %s", pins)
	}
	h.run(t, "xlb", "heels", "detach")
	if pins := h.run(t, "ls", "/sys/fs/bpf"); strings.Contains(pins, heelsPins) {
		t.Errorf("left behind detach: %s", pins)
	}
	for line := range strings.Lines(log()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("the agent has logged: %s", line)
		}
	}
}

// What systemd says that a unit leaves its service, from 0 to 10: neither becomes more.
func TestUnitsLeaveLittle(t *testing.T) {
	analyze := harness.Command(t, "systemd-analyze")
	for _, tt := range []struct {
		file string
		// most is ten times the exposure.
		most int
	}{{unit, 32}, {heelsUnit, 27}} {
		file, err := filepath.Abs(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.Command(analyze, "security", "--offline=yes", "--no-pager", "--threshold="+strconv.Itoa(tt.most), file).CombinedOutput()
		if err != nil {
			t.Errorf("%s leaves more than %d: %v\n%s", tt.file, tt.most, err, output)
		}
	}
}
