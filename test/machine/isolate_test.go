// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

// isolate is a command of scripts/isolate, whose runs are those of this test alone.
func isolate(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("../../scripts/isolate", arguments...)
	cmd.Env = append(os.Environ(), RunVariable+"=")
	return cmd
}

// litter leaves in a run what a test may: a process with a session of its own, cgroups, a namespace with a name, a file, and a setting
// that is said to have been another. The last line that it prints is the run's temporary directory.
const litter = `set -eu
cgroups=$(awk '/ - cgroup2 /{print $5; exit}' /proc/self/mountinfo)
mkdir -p $cgroups/test/below
setsid sleep 1000 & echo $! >$cgroups/test/below/cgroup.procs
if [ -e /sys/fs/cgroup/cpu/cgroup.procs ]; then
	mkdir /sys/fs/cgroup/cpu/xlb-e2e-r$XLB_RUN-limit-1
	echo $! >/sys/fs/cgroup/cpu/xlb-e2e-r$XLB_RUN-limit-1/cgroup.procs
fi
ip netns add xlb-isolate-test
touch $TMPDIR/file
echo /proc/sys/net/ipv4/inet_peer_threshold >$XLB_RECORDS/$XLB_RUN/settings/harmless
echo 65001 >>$XLB_RECORDS/$XLB_RUN/settings/harmless
cat $XLB_RECORDS/$XLB_RUN/temporary
`

func TestRunLeavesNothing(t *testing.T) {
	recordsOfTest(t)
	keepHarmless(t)
	out, err := isolate(t, "sh", "-c", litter+"exit 7").Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Errorf("the run ended with %v (%s), want the 7 of its command", err, stderr(err))
	}
	requireGone(t, strings.TrimSpace(string(out)))
}

func TestRunHasNoNetworkButLoopback(t *testing.T) {
	recordsOfTest(t)
	out, err := isolate(t, "sh", "-c", "ls -A /sys/fs/bpf; tail -n +3 /proc/net/dev | cut -d : -f 1; grep -c . /proc/net/route").Output()
	// The kernel writes the first two into each BPF file system.
	if got := strings.Fields(string(out)); strings.Join(got, " ") != "maps.debug progs.debug lo 1" {
		t.Errorf("BPF file system, devices and lines of routes are %q (%v %s), want lo alone and the headline", got, err, stderr(err))
	}
}

func TestCleanRemovesWhatAKilledRunLeft(t *testing.T) {
	recordsOfTest(t)
	keepHarmless(t)
	run, temporary := startLitterer(t)
	clean(t)
	if _, err := os.Stat(temporary); err != nil {
		t.Errorf("--clean has removed %s of a run that is under way: %v", temporary, err)
	}
	if got := inForce(t); got == "65001" {
		t.Error("--clean has put back the setting of a run that is under way")
	}
	// The script alone: what it started ends with it.
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	// By the script's watch.
	requireGone(t, temporary)
	clean(t)
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	recordsOfTest(t)
	keepHarmless(t)
	run, temporary := startLitterer(t)
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	// So a script that runs it is interrupted, too.
	if status := run.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("the run ended by %v, want an interrupt", status)
	}
	requireGone(t, temporary)
}

// startLitterer starts a run that does not end, and returns it when it has left its litter.
func startLitterer(t *testing.T) (run *exec.Cmd, temporary string) {
	t.Helper()
	run = isolate(t, "sh", "-c", litter+"sleep 1000")
	run.Stderr = os.Stderr
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return run, string(bytes.TrimSpace(line[:n]))
}

// inCgroups finds paths in cgroup v2 and below v1's controllers.
func inCgroups(t *testing.T, pattern string) (found []string) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	return found
}

func clean(t *testing.T) {
	t.Helper()
	if out, err := isolate(t, "--clean").CombinedOutput(); err != nil {
		t.Errorf("--clean: %v: %s", err, out)
	}
}

// keepHarmless changes the setting that runs of this test put back to 65001.
func keepHarmless(t *testing.T) {
	t.Helper()
	file, err := open(harmless)
	if err != nil {
		t.Fatal(err)
	}
	before, err := read(file)
	if err == nil {
		_, err = file.WriteAt([]byte("65000"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := file.WriteAt(before, 0); err != nil {
			t.Error(err)
		}
		file.Close()
	})
}

// requireGone wants all that a run had made to be gone, at the latest when the kernel has ended its processes.
func requireGone(t *testing.T, temporary string) {
	t.Helper()
	name := filepath.Base(temporary)
	run := strings.TrimPrefix(name, "xlb-run-")
	if run == name {
		t.Fatalf("the run's temporary directory is %q", temporary)
	}
	await.Quiet(t, func() string {
		left := append(inCgroups(t, name), inCgroups(t, "xlb-e2e-r"+run+"-*")...)
		for _, path := range []string{temporary, filepath.Join(recordsDirectory(), run), "/run/netns/xlb-isolate-test"} {
			if _, err := os.Lstat(path); err == nil {
				left = append(left, path)
			}
		}
		if len(left) > 0 {
			return "left: " + strings.Join(left, ", ")
		}
		return ""
	})
	if got := inForce(t); got != "65001" {
		t.Errorf("the setting is %s, want the former value of the record, 65001", got)
	}
}

func stderr(err error) []byte {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.Stderr
	}
	return nil
}

// A run whose watch was killed, too, is known by its record alone; so is one that lives, or belongs to another container.
func TestCleanGoesByRecords(t *testing.T) {
	recordsOfTest(t)
	keepHarmless(t)
	self, err := owner()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(self)
	boot, namespace := fields[1], fields[2]
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const back = harmless + "\n65001\n"
	for _, r := range []struct {
		name, run, born, setting, temporary string
		stays                               bool
	}{
		{name: "lives", run: "4000001", born: self, setting: "not read", stays: true},
		{name: "of another container", run: "4000002", born: "4000002 " + boot + " pid:[1] 1\n", setting: "not read", stays: true},
		{name: "no number", run: "precious", born: "gone", setting: "not read", stays: true},
		{name: "not begun", run: "4000003", stays: true},
		{name: "setting that is none", run: "4000004", born: "4000004 " + boot + " " + namespace + " 1\n", setting: "/proc/sys/../.." + victim + "\n1\n"},
		{name: "directory that is not a run's", run: "4000005", born: "4000005 earlier " + namespace + " 1\n", temporary: filepath.Dir(victim)},
		{name: "killed", run: "4000006", born: "4000006 " + boot + " " + namespace + " 1\n", setting: back[:len(back)-1]},
	} {
		record := filepath.Join(recordsDirectory(), r.run)
		if err := os.MkdirAll(filepath.Join(record, "settings"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"born": r.born, "settings/harmless": r.setting, "temporary": r.temporary} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(record, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := isolate(t, "--clean").CombinedOutput()
		if err != nil {
			t.Errorf("%s: --clean: %v: %s", r.name, err, out)
		}
		if _, err := os.Stat(record); (err == nil) != r.stays {
			t.Errorf("%s: the record is there: %t, want %t (%s)", r.name, err == nil, r.stays, out)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || len(text) > 0 {
		t.Errorf("a file outside /proc/sys has %q now (%v)", text, err)
	}
	if got := inForce(t); got != "65001" {
		t.Errorf("the setting is %s, want the former value of the killed run's record, 65001", got)
	}
}
