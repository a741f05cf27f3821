// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a program has is what its user has, and nothing of the daemon's.
func TestProgramHasNoPrivileges(t *testing.T) {
	raiseCoreLimit(t)
	c := confine(t, Limits{})
	state := stateOf(t, c, "a b", "")
	user := fmt.Sprint(c.User())
	four := strings.Join([]string{user, user, user, user}, "\t")
	expected := map[string]string{
		"Uid": four, "Gid": four, "Groups": "", "NoNewPrivs": "1", "Umask": "0007",
		"core": "0", "dir": "/", "input": "/dev/null", "arguments": `["a b" ""]`, "environment": "0", "leader": "true", "files": "[]",
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		expected[set] = "0000000000000000"
	}
	for key, value := range expected {
		if got, isThere := state[key]; !isThere || got != value {
			t.Errorf("%s is %q, not %q", key, got, value)
		}
	}
}

// stateOf is what a program is given.
func stateOf(t *testing.T, c *Confinement, args ...string) map[string]string {
	t.Helper()
	lines, err := start(t, c, append([]string{"state"}, args...)...).end()
	if err != nil {
		t.Fatal(err, lines)
	}
	state := map[string]string{}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ":\t")
		state[key] = strings.Trim(value, " ")
	}
	return state
}

// A daemon that goes before other programs, and is spared by the kernel, does not hand that on.
func TestProgramHasNoPrecedence(t *testing.T) {
	c := confine(t, Limits{})
	setNiceness(t, -5)
	t.Cleanup(func() { setNiceness(t, 0) })
	if n := stateOf(t, c)["niceness"]; n != "0" {
		t.Errorf("its niceness is %s", n)
	}
	was := self.read("oom_score_adj")
	if err := self.set("oom_score_adj", "-1000"); err != nil {
		t.Skipf("needs CAP_SYS_RESOURCE for the rest: %v", err)
	}
	t.Cleanup(func() { _ = self.set("oom_score_adj", was) })
	if adjustment := stateOf(t, c)["spared"]; adjustment != "0" {
		t.Errorf("its oom_score_adj is %s", adjustment)
	}
	if now := self.read("oom_score_adj"); now != "-1000" {
		t.Errorf("the daemon's oom_score_adj is %s afterwards", now)
	}
}

// setNiceness is for all threads that there are.
func setNiceness(t *testing.T, niceness int) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if err := unix.Setpriority(unix.PRIO_PROCESS, number(thread.Name()), niceness); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// raiseCoreLimit gives the test a limit that a program could inherit.
func raiseCoreLimit(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Cur: was.Max, Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prlimit(0, unix.RLIMIT_CORE, &was, nil) })
}

func TestStartLeavesTheDaemonAsItWas(t *testing.T) {
	raiseCoreLimit(t)
	state := func() string {
		var core unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_CORE, &core)
		dumpable, dumpErr := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		mask := unix.Umask(0)
		unix.Umask(mask)
		return fmt.Sprint(core, err, dumpable, dumpErr, mask, os.Getuid(), os.Geteuid())
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	before := state()
	c := confine(t, Limits{})
	for range 5 {
		if _, err := start(t, c, "exit", "0").end(); err != nil {
			t.Fatal(err)
		}
	}
	if after := state(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	if _, err := c.Start(Command{Path: program, Dir: "/does/not/exist"}); err == nil {
		t.Error("started in a directory that does not exist")
	}
	if after := state(); after != before {
		t.Errorf("before %s, after a start that failed %s", before, after)
	}
}

func TestHowAProgramEnded(t *testing.T) {
	c := confine(t, Limits{})
	for _, test := range []struct {
		args []string
		err  string
	}{
		{[]string{"exit", "0"}, "<nil>"},
		{[]string{"exit", "1"}, "exit status 1"},
		{[]string{"exit", "77"}, "exit status 77"},
		{[]string{"signal", "15"}, "killed by signal 15"},
		{[]string{"signal", "9"}, "killed by signal 9"},
	} {
		if _, err := start(t, c, test.args...).end(); fmt.Sprint(err) != test.err {
			t.Errorf("%v: %v, not %s", test.args, err, test.err)
		}
	}
}

func TestErrIsNilBeforeTheEnd(t *testing.T) {
	p := start(t, confine(t, Limits{}), "sleep")
	p.awaitLines("ready", 1)
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	for range 3 {
		p.Kill()
	}
	if _, err := p.end(); fmt.Sprint(err) != "killed by signal 9" {
		t.Error(err)
	}
	p.Kill() // after the end
}

// A process that has been killed takes its descendants with it, in whatever session they are and whatever they ignore.
func TestKillReachesDescendants(t *testing.T) {
	p := start(t, confine(t, Limits{}), "family")
	p.awaitLines("ready", 1)
	p.Kill()
	lines, _ := p.end()
	checkEnded(t, lines, kin)
}

// Nor do they outlive one that ends by itself.
func TestOrphansEnd(t *testing.T) {
	c := confine(t, Limits{})
	lines, err := start(t, c, "orphans").end()
	if err != nil {
		t.Error(err)
	}
	checkEnded(t, lines, kin)
	if procs := c.groups.unified.count("cgroup.events", "populated"); procs != 0 {
		t.Error("there are processes after Done")
	}
}

// checkEnded demands that so many children were started, and that all have ended.
func checkEnded(t *testing.T, lines []string, n int) {
	t.Helper()
	children := 0
	for _, line := range lines {
		pid, isChild := strings.CutPrefix(line, "child ")
		if !isChild {
			continue
		}
		if children++; !hasEnded(pid) {
			t.Errorf("child %s goes on", pid)
		}
	}
	if children != n {
		t.Errorf("%d children, not %d: %q", children, n, lines)
	}
}

func TestKillIsOfOneProcess(t *testing.T) {
	c := confine(t, Limits{})
	one, other := start(t, c, "sleep"), start(t, c, "sleep")
	one.awaitLines("ready", 1)
	other.awaitLines("ready", 1)
	one.Kill()
	one.end()
	if hasEnded(fmt.Sprint(other.PID())) || other.Err() != nil {
		t.Error("another process of the same confinement has ended")
	}
}

func TestCloseEndsAll(t *testing.T) {
	c := confine(t, Limits{})
	p, q := start(t, c, "family"), start(t, c, "sleep")
	p.awaitLines("ready", 1)
	q.awaitLines("ready", 1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	lines, err := p.end()
	checkEnded(t, lines, kin)
	if fmt.Sprint(err) != "killed by signal 9" {
		t.Error(err)
	}
	q.end()
	if _, err := c.Start(Command{Path: program, Args: []string{"exit", "0"}}); err == nil {
		t.Error("started in a confinement that has been closed")
	}
}

func TestTwoCannotHaveOneName(t *testing.T) {
	c := confine(t, Limits{})
	name := c.Cgroup()[strings.LastIndexByte(c.Cgroup(), '/')+1:]
	if second, err := Confine(name, Limits{}); err == nil {
		second.Close()
		t.Error("two confinements have one cgroup")
	}
	for _, bad := range []string{"", ".", "..", "a/b", "/a"} {
		if made, err := Confine(bad, Limits{}); err == nil {
			made.Close()
			t.Errorf("%q is the name of a cgroup", bad)
		}
	}
}

func TestLinesAreGivenWhole(t *testing.T) {
	lines, err := start(t, confine(t, Limits{}), "write").end()
	slices.Sort(lines)
	if err != nil || !slices.Equal(lines, []string{"err", "last", "out"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestProgramCanOpenItsOutput(t *testing.T) {
	lines, err := start(t, confine(t, Limits{}), "reopen").end()
	if err != nil || !slices.Equal(lines, []string{"by /dev/stdout"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	lines, err := start(t, confine(t, Limits{}), "long").end()
	if err != nil || !slices.Equal(lines, []string{strings.Repeat("x", maxLine), "next"}) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestLineWithoutEndIsReadOn(t *testing.T) {
	p := start(t, confine(t, Limits{}), "endless")
	p.awaitLines("x", 1)
	// What it writes is read on: it does not come to wait for a reader.
	before := bytesWritten(p.PID())
	await(t, "1 MiB more is read", func() bool { return bytesWritten(p.PID()) > before+1<<20 })
	p.Kill()
	if lines, _ := p.end(); len(lines) != 1 || len(lines[0]) != maxLine {
		t.Errorf("%d lines", len(lines))
	}
}

// bytesWritten is how many bytes a process has written to whatever.
func bytesWritten(pid int) uint64 { return group(fmt.Sprintf("/proc/%d", pid)).count("io", "wchar:") }

func TestFloodEndsWithItsProgram(t *testing.T) {
	c := confine(t, Limits{})
	p, err := c.Start(Command{Path: program, Args: []string{"flood"}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "1 MiB is dropped", func() bool { return bytesWritten(p.PID()) > 1<<20 })
	p.Kill()
	(&running{Process: p, t: t}).end()
}

// Output that does not return holds Done, and not Close.
func TestOutputThatDoesNotReturn(t *testing.T) {
	c := confine(t, Limits{})
	called, release := make(chan struct{}, 1), make(chan struct{})
	p, err := c.Start(Command{Path: program, Args: []string{"flood"}, Output: func([]byte) {
		select {
		case called <- struct{}{}:
		default:
		}
		<-release
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-called
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Done():
		t.Error("done before all output was given")
	default:
	}
	close(release)
	(&running{Process: p, t: t}).end()
}

// A pipe that has been given away does not hold Done, and what the program itself wrote is given.
func TestPipeThatOutlivesTheProgram(t *testing.T) {
	c := confine(t, Limits{})
	p := start(t, c, "sleep")
	p.awaitLines("ready", 1)
	given, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.PID()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	if _, err := given.WriteString("the last words"); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if lines, _ := p.end(); !slices.Contains(lines, "the last words") {
		t.Errorf("%q", lines)
	}
}

func TestTasksAreBounded(t *testing.T) {
	c := confine(t, Limits{})
	bound := ""
	for _, g := range c.groups.all() {
		if g.set("pids.max", "40") == nil {
			bound = string(g)
		}
	}
	if bound == "" {
		t.Skip("needs the controller pids")
	}
	p := start(t, c, "bomb")
	select {
	case <-p.more: // it was refused, or Go's runtime was and says so
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the bomb does neither end nor write")
	}
	p.Kill()
	if lines, err := p.end(); err == nil || slices.Contains(lines, "unbounded") {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const limit = 96 << 20
	c := confine(t, Limits{Memory: limit})
	if lines, err := start(t, c, "memory").end(); fmt.Sprint(err) != "killed: out of memory (limit 96 MiB)" {
		t.Errorf("%v, %q", err, lines)
	}
	if _, of := c.Memory(); of != limit {
		t.Errorf("limit %d", of)
	}
	// The next one is not taken for it.
	p := start(t, c, "sleep")
	p.awaitLines("ready", 1)
	if used, _ := c.Memory(); used == 0 || used > limit {
		t.Errorf("%d bytes are used", used)
	}
	p.Kill()
	if _, err := p.end(); fmt.Sprint(err) != "killed by signal 9" {
		t.Error(err)
	}
}

// A program that is stopped can be killed.
func TestStoppedProgramCanBeKilled(t *testing.T) {
	p := start(t, confine(t, Limits{}), "sleep")
	p.awaitLines("ready", 1)
	if err := unix.Kill(p.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.end()
}

func TestManyStartsAtOnce(t *testing.T) {
	c := confine(t, Limits{})
	const n = 8
	done := make(chan error, n)
	for range n {
		go func() {
			p, err := c.Start(Command{Path: program, Args: []string{"exit", "0"}})
			if err == nil {
				<-p.Done()
				err = p.Err()
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(c.Cgroup())
	for _, entry := range entries {
		if entry.IsDir() {
			t.Errorf("%s is left", entry.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
}
