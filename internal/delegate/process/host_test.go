// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", "\x7fELF", 0o755)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("closed", "\x7fELF", 0o700)
	write("unreadable", "\x7fELF", 0o711)
	write("open", "\x7fELF", 0o777)
	write("shared", "\x7fELF", 0o775)
	write("script", "#!/bin/sh\n", 0o755)
	write("text", "\x7fELF", 0o644)
	for _, test := range []struct{ name, path, err string }{
		{"good", good, ""},
		{good, good, ""},
		{"link", link, ""},
		{"unreadable", dir + "/unreadable", ""},
		{"absent", "", `"absent": executable file not found in $PATH; install Envoy, or name it with --delegate`},
		{dir + "/absent", "", "no such file or directory; install Envoy"},
		{"", "", "not found"},
		{dir + "/directory", "", "is a directory; install Envoy"},
		{"/dev/null", "", "permission denied"},
		{"text", "", "not found"},
		{dir + "/text", "", "permission denied"},
		{"closed", "", "has the mode 0700: the user that it is to run as may not execute it; chmod o+x"},
		{"open", "", "has the mode 0777: others than its owner may change it; chmod go-w"},
		{"shared", "", "has the mode 0775: others than its owner may change it; chmod go-w"},
		{"script", "", "is a script"},
	} {
		path, err := Find(test.name)
		if path != test.path || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %q, %v", test.name, path, err)
		}
	}
}

// Start looks at the file itself: what Find has seen may be another one by then.
func TestStartRefusesWhatFindDoes(t *testing.T) {
	c := confine(t, Limits{})
	path := filepath.Join(t.TempDir(), "program")
	for _, test := range []struct {
		text string
		mode fs.FileMode
		err  string
	}{
		{"\x7fELF", 0o700, "chmod o+x"},
		{"\x7fELF", 0o757, "chmod go-w"},
		{"#!/bin/sh\n", 0o755, "is a script"},
		{"no program", 0o755, "it is not a program of this machine"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(test.text), 0o600), os.Chmod(path, test.mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Start(Command{Path: path}); err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%#o %q: %v", test.mode, test.text, err)
		}
	}
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(Command{Path: program, Dir: private}); err == nil || !strings.Contains(err.Error(), "may not enter "+private) {
		t.Errorf("in a directory of root's: %v", err)
	}
}

func TestVersionOfWhatIsNoEnvoy(t *testing.T) {
	c := confine(t, Limits{})
	if version, err := c.Version(t.Context(), program); err == nil || !strings.Contains(err.Error(), "is Envoy 1.29.3: a delegate has to be 1.30.0 or later") {
		t.Errorf("an old one: %q, %v", version, err)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if version, err := c.Version(t.Context(), shell); err == nil || !strings.Contains(err.Error(), "is not an Envoy") {
		t.Errorf("%s: %q, %v", shell, version, err)
	}
}

// A program that does not end holds up as long as the caller allows.
func TestVersionOfWhatDoesNotEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := confine(t, Limits{}).printed(ctx, program, "sleep"); err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Error(err)
	}
}

func TestVersionIn(t *testing.T) {
	for printed, expected := range map[string]string{
		"\nenvoy  version: 47a309e8b2f1c/1.40.0/Clean/RELEASE/BoringSSL\n": "1.40.0",
		"envoy version: 47a3/1.31.2-dev/Modified/DEBUG/BoringSSL":          "1.31.2-dev",
		"nginx version: nginx/1.26.0/x":                                    "1.26.0",
		"nginx version: nginx/1.26.0":                                      "",
		"envoy version: a/b/c/d":                                           "",
		"envoy version: a/1.40/c/d":                                        "",
		"envoy version: a/1.40.0.0/c/d":                                    "",
		"envoy version: a/1.-40.0/c/d":                                     "",
		"curl 8.0":                                                         "",
		"":                                                                 "",
	} {
		if version, ok := versionIn(printed); version != expected || ok != (expected != "") {
			t.Errorf("%q: %q, %v", printed, version, ok)
		}
	}
}

func TestIsOlder(t *testing.T) {
	for version, older := range map[string]bool{
		"1.30.0": false, "1.29.12": true, "1.9.0": true, "1.30.1-dev": false, "1.100.0": false, "2.0.0": false, "0.99.0": true,
	} {
		if isOlder(version, "1.30.0") != older {
			t.Errorf("%s: not %v", version, older)
		}
	}
}

func TestNumbersInUse(t *testing.T) {
	proc := t.TempDir()
	status := "Name:\tUid:\\n\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nNSpid:\t11\nGid:\t99999999999\n"
	if err := errors.Join(os.Mkdir(proc+"/17", 0o755), os.WriteFile(proc+"/17/status", []byte(status), 0o600)); err != nil {
		t.Fatal(err)
	}
	used, err := numbersInUse(proc)
	if err != nil || len(used) != 10 {
		t.Errorf("%v, %v", used, err)
	}
	for n := range uint32(10) {
		if !used[n+1] {
			t.Errorf("%d is not in use", n+1)
		}
	}
	if _, err := numbersInUse(t.TempDir()); err == nil {
		t.Error("a procfs without processes")
	}
}

func TestUsersAreAboveOthers(t *testing.T) {
	for range 100 {
		user, err := unusedUser(procfs)
		if err != nil || user < firstUser || user > lastUser {
			t.Fatal(user, err)
		}
	}
}

func TestParseHierarchies(t *testing.T) {
	const mountinfo = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/1 /other/cpu rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:32 /a /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 31 0:40 /a /part rw - cgroup2 cgroup2 rw
36 31 0:41 / /with\040blank rw,relatime - cgroup2 cgroup2 rw,nsdelegate
37 31 0:41 / /second rw,relatime - cgroup2 cgroup2 rw
broken line - cgroup2
`
	h := parseHierarchies(mountinfo)
	got := fmt.Sprint(h.unified, h.legacy["cpu"], h.legacy["cpuacct"], h.legacy["memory"], h.legacy["pids"])
	if got != fmt.Sprint(group("/with blank"), group("/sys/fs/cgroup/cpu,cpuacct"), group("/sys/fs/cgroup/cpu,cpuacct"), group("/sys/fs/cgroup/memory"), group("")) {
		t.Error(got)
	}
}

func TestIsStale(t *testing.T) {
	own, err := Name()
	if err != nil {
		t.Fatal(err)
	}
	for name, stale := range map[string]bool{
		own:                                false,
		own + "1":                          true,
		"xlb-delegate-1-notatime":          true,
		"xlb-delegate-2147483647-1":        true, // above all numbers of processes
		"xlb-delegate-99999999999999999-1": false,
		"xlb-delegate-x-1":                 false,
		"xlb-delegate-":                    false,
		"xlb-delegate-2147483647":          false,
		"another-2147483647-1":             false,
	} {
		if isStale(name) != stale {
			t.Errorf("%s: not %v", name, stale)
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, cpus := range []float64{-1, 0.001, math.NaN(), math.Inf(1), 1e300} {
		if c, err := Confine("xlb-test-process-limits", Limits{CPUs: cpus}); err == nil {
			c.Close()
			t.Errorf("%v processors are a bound", cpus)
		}
	}
}

// fakeGroup is a directory with files as a cgroup's.
func fakeGroup(t *testing.T, at string, files map[string]string) group {
	t.Helper()
	err := os.MkdirAll(at, 0o755)
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return group(at)
}

// With all controllers in version 2 nothing is made in version 1.
func TestBoundsOfTheUnifiedHierarchy(t *testing.T) {
	dir := t.TempDir()
	root := fakeGroup(t, dir, map[string]string{"cgroup.controllers": "cpuset cpu memory pids\n", "cgroup.subtree_control": "memory pids\n"})
	files := map[string]string{}
	for _, name := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max", "cgroup.subtree_control"} {
		files[name] = ""
	}
	own := fakeGroup(t, dir+"/own", files)
	c := &Confinement{limits: Limits{Memory: 512 << 20, CPUs: 1.5}, groups: groups{unified: own}}
	h := hierarchies{unified: root, legacy: map[string]group{"memory": "/absent"}}
	if err := c.bound(h, "own"); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"memory.max": "536870912", "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "1024", "cgroup.subtree_control": "+memory",
	} {
		if got := own.read(name); got != value {
			t.Errorf("%s is %q, not %q", name, got, value)
		}
	}
	if got := root.read("cgroup.subtree_control"); !strings.HasPrefix(got, "+cpu") {
		t.Errorf("the root's cgroup.subtree_control is %q", got)
	}
	child := fakeGroup(t, dir+"/own/1", map[string]string{"memory.oom.group": "", "memory.events": "low 1\noom 2\noom_kill 3\noom_group_kill 4\n"})
	of := c.memory.below("1")
	if err := of.endWhole(); err != nil || child.read("memory.oom.group") != "1" || of.kills() != 3 {
		t.Errorf("%v, %q, %d", err, child.read("memory.oom.group"), of.kills())
	}
	if len(c.groups.legacy) != 0 {
		t.Error(c.groups.legacy)
	}
}

func TestBoundsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	h := hierarchies{unified: fakeGroup(t, dir, map[string]string{"cgroup.controllers": "cpuset\n"})}
	for _, test := range []struct {
		limits Limits
		err    string
	}{
		{Limits{}, ""},
		{Limits{Memory: 1 << 20}, "memory cannot be bounded: no cgroup hierarchy has the controller; mount cgroup v2 with the memory controller, or --delegate-memory=0"},
		{Limits{CPUs: 1}, "cpu cannot be bounded: no cgroup hierarchy has the controller; mount cgroup v2 with the cpu controller, or --delegate-cpus=0"},
	} {
		c := &Confinement{limits: test.limits, groups: groups{unified: h.unified.below("own")}}
		err := c.bound(h, "own")
		if err == nil && test.err != "" || err != nil && err.Error() != test.err {
			t.Errorf("%+v: %v", test.limits, err)
		}
		if used, _ := c.Memory(); used != 0 || c.memory.kills() != 0 || c.memory.below("1").endWhole() != nil {
			t.Error("an account that there is not")
		}
	}
}
