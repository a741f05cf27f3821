// SPDX-License-Identifier: Apache-2.0

// Package systemd runs XLB by systemd, from the unit that XLB ships: with the capabilities, system calls, mounts and address families that the unit leaves it.
// The systemd is Debian's, the first process of namespaces of its own. It needs root and what "scripts/install-deps systemd" installs, and runs by
// scripts/isolate alone.
package systemd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/machine"
)

func TestMain(m *testing.M) {
	if programs.Selected() {
		os.Exit(programs.Main())
	}
	os.Exit(m.Run())
}

// host is a machine that runs systemd.
type host struct {
	// shared is a directory that is shared with the machine, at /xlb there, and cgroup that of the machine's root.
	shared, cgroup string
	// init is the first process's number here.
	init string
}

// boot starts systemd, and ends all that it has started when the test ends.
func boot(t *testing.T) *host {
	t.Helper()
	if os.Getenv(machine.RunVariable) == "" {
		t.Fatal("systemd makes cgroups and mounts: run this by make test-systemd, or with scripts/isolate before it")
	}
	harness.Command(t, "systemd-run")
	unshare, script := harness.Command(t, "unshare"), "./boot"
	h := &host{shared: t.TempDir(), cgroup: newCgroup(t)}
	h.share(t, "/proc/self/exe", "test", 0o755)
	h.share(t, harness.Binary(t), "xlb", 0o755)
	h.writeSetUp(t)
	before := sysctls(t)
	cgroup, err := os.Open(h.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	var output bytes.Buffer
	cmd := exec.Command(unshare, "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", script, h.shared)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.end(t, cmd)
		if t.Failed() {
			t.Logf("systemd wrote:\n%s%s", output.String(), h.read(t, "console"))
		}
	})
	h.awaitBoot(t, cmd.Process.Pid)
	h.requireSysctlsKept(t, before)
	return h
}

// writeSetUp sets the machine up as real ones are, on which this test runs: with disks, modules and limits that systemd would wait or fail for.
func (h *host) writeSetUp(t *testing.T) {
	t.Helper()
	for name, content := range map[string]string{
		"fstab":                          "/dev/disk/by-uuid/00000000-0000-4000-8000-000000000000 /data ext4 defaults 0 2\n",
		"crypttab":                       "data /dev/disk/by-uuid/00000000-0000-4000-8000-000000000000 none luks\n",
		"modules-load.d/xlb.conf":        "no_such_module\n",
		"systemd/system.conf.d/xlb.conf": "[Manager]\nDefaultLimitNOFILE=3\n",
	} {
		path := filepath.Join(h.shared, "machine/etc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sysctls are those that Debian's systemd sets as it starts.
func sysctls(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range []string{"fs/file-max", "fs/nr_open", "fs/protected_fifos", "fs/protected_hardlinks", "fs/protected_symlinks", "kernel/pid_max"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		values[name] = string(value)
	}
	return values
}

// requireSysctlsKept fails unless systemd has left the sysctls of this machine as they were, and cannot do else.
func (h *host) requireSysctlsKept(t *testing.T, before map[string]string) {
	t.Helper()
	for name, value := range sysctls(t) {
		if value != before[name] {
			t.Errorf("%s of this machine: %q before systemd has started, %q behind it", name, before[name], value)
		}
		if h.command("test", "-w", "/proc/sys/"+name).Run() == nil {
			t.Errorf("%s of this machine may be written to by systemd", name)
		}
	}
}

// newCgroup makes the cgroup that is the machine's root.
func newCgroup(t *testing.T) string {
	t.Helper()
	root, err := check.CgroupMount()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(root, "systemd-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// awaitBoot waits until systemd has started all that it starts by itself.
func (h *host) awaitBoot(t *testing.T, parent int) {
	t.Helper()
	await.Quiet(t, func() string {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
		if err != nil {
			return err.Error()
		}
		h.init = strings.TrimSpace(string(children))
		if name, _ := os.ReadFile("/proc/" + h.init + "/comm"); h.init == "" || strings.TrimSpace(string(name)) != "systemd" {
			return fmt.Sprintf("the machine's first process is %q, not yet systemd", name)
		}
		if state, _ := h.command("systemctl", "is-system-running").Output(); strings.TrimSpace(string(state)) != "running" {
			failed, _ := h.command("systemctl", "--failed", "--no-pager").CombinedOutput()
			return fmt.Sprintf("the machine is %q:\n%s", state, failed)
		}
		return ""
	})
}

// end kills the machine's first process, with which the kernel ends all others, and removes the machine's cgroups.
func (h *host) end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	// It was killed.
	_ = cmd.Wait()
	await.Quiet(t, func() string {
		err := filepath.WalkDir(h.cgroup, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			return removeTree(path)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err.Error()
		}
		return ""
	})
}

// removeTree removes a cgroup and those below it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}

// share copies a file to where the machine sees it.
func (h *host) share(t *testing.T, from, name string, mode fs.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, name, content, mode)
}

func (h *host) write(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.shared, name), content, mode); err != nil {
		t.Fatal(err)
	}
}

func (h *host) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(h.shared, name))
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// command is one in the machine.
func (h *host) command(argv ...string) *exec.Cmd {
	enter := []string{"--target", h.init, "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--"}
	cmd := exec.Command("nsenter", append(enter, argv...)...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, "/"
	return cmd
}

// run runs a command in the machine, which must succeed, and returns what it has written.
func (h *host) run(t *testing.T, argv ...string) string {
	t.Helper()
	output, err := h.command(argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v:\n%s", strings.Join(argv, " "), err, output)
	}
	return string(output)
}

// put puts a shared file into the machine, in one step.
func (h *host) put(t *testing.T, name, path, mode string) {
	t.Helper()
	h.run(t, "install", "-D", "-m", mode, "/xlb/"+name, path+".new")
	h.run(t, "mv", path+".new", path)
}

// program is the command that runs one of package programs as a transient unit of systemd, so that its processes are in a cgroup of the machine's.
func (h *host) program(name string, properties ...string) *exec.Cmd {
	argv := []string{"systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--setenv=" + programs.Variable + "=" + name}
	for _, p := range properties {
		argv = append(argv, "--property="+p)
	}
	return h.command(append(argv, "/xlb/test")...)
}

// start starts a program of package programs, which ends with its input, or with the machine, and decodes its first answer.
func (h *host) start(t *testing.T, name string, spec, answer any, properties ...string) {
	t.Helper()
	cmd := h.program(name, properties...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	err = json.NewEncoder(in).Encode(spec)
	if err == nil {
		err = json.NewDecoder(out).Decode(answer)
	}
	if err != nil {
		t.Fatalf("%s in the machine: %v: %s", name, err, errs.String())
	}
}

// serve starts a server of the machine.
func (h *host) serve(t *testing.T, identity, address string) {
	t.Helper()
	var ready programs.OriginReady
	h.start(t, programs.OriginProgram, programs.OriginSpec{Address: address, Identity: identity}, &ready)
}

// load sends requests in the machine, with these properties of a unit.
func (h *host) load(t *testing.T, spec programs.LoadSpec, properties ...string) (report programs.LoadReport) {
	t.Helper()
	h.start(t, programs.LoadProgram, spec, &report, properties...)
	return report
}

// pids are the processes of a unit, by their numbers here.
func (h *host) pids(t *testing.T, unit string) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.cgroup, "system.slice", unit, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
