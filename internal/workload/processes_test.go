// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/netns"
)

// machine is a made-up proc and cgroup file system.
type machine struct {
	t            *testing.T
	proc, cgroup string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir(), t.TempDir()}
	m.start(1, 100, "own")
	must(t, os.Symlink("1", filepath.Join(m.proc, "self")))
	return m
}

// start makes a process, with the time at which it has begun and its namespace.
func (m *machine) start(pid, at int, namespace string) {
	m.t.Helper()
	m.write(filepath.Join(m.proc, "namespaces", namespace), "")
	dir := filepath.Join(m.proc, fmt.Sprint(pid))
	m.write(filepath.Join(dir, "stat"), fmt.Sprintf("%d (a) b (c) S%s %d 0 0\n", pid, strings.Repeat(" 0", 18), at))
	must(m.t, os.MkdirAll(filepath.Join(dir, "ns"), 0o755))
	must(m.t, os.Symlink(filepath.Join(m.proc, "namespaces", namespace), filepath.Join(dir, "ns/net")))
}

func (m *machine) write(file, text string) {
	m.t.Helper()
	must(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(m.t, os.WriteFile(file, []byte(text), 0o644))
}

// inode is that of a namespace.
func (m *machine) inode(namespace string) netns.Inode {
	m.t.Helper()
	inode, err := netns.InodeOf(filepath.Join(m.proc, "namespaces", namespace))
	must(m.t, err)
	return inode
}

func (m *machine) find() (namespaces, error) {
	f := finder{proc: m.proc, cgroups: []string{m.cgroup}}
	return f.find()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheOldestProcessOfEachNamespaceIsFound(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start(2, 50, "own")
	m.start(30, 300, "pod")
	m.start(31, 200, "pod")
	m.start(32, 200, "pod")
	m.start(40, 400, "other pod")
	m.start(50, 1, "not balanced")
	// 0 is a process of another pid namespace, and 99 has ended meanwhile.
	m.write(filepath.Join(m.cgroup, "cgroup.procs"), "1\n2\n0\n30\n99\n")
	m.write(filepath.Join(m.cgroup, "below", "cgroup.procs"), "32\n31\n")
	m.write(filepath.Join(m.cgroup, "below", "far below", "cgroup.procs"), "40\n")
	got, err := m.find()
	must(t, err)
	want := map[netns.Inode]int{m.inode("pod"): 31, m.inode("other pod"): 40}
	if diff := cmp.Diff(want, got.oldest); diff != "" || got.denied != nil {
		t.Errorf("oldest processes (-want +got):\n%s\ndenied: %v", diff, got.denied)
	}
}

func TestWhatCannotBeReadIsReportedAndTheOthersAreFound(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start(30, 300, "pod")
	m.start(40, 400, "other pod")
	m.write(filepath.Join(m.proc, "40", "stat"), "40 (short) S 0\n")
	m.write(filepath.Join(m.cgroup, "cgroup.procs"), "30\n40\n")
	must(t, os.MkdirAll(filepath.Join(m.cgroup, "below", "cgroup.procs"), 0o755))
	got, err := m.find()
	if err == nil || !strings.Contains(err.Error(), "40/stat") || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %v, want an error that names a short stat and a list that is a directory", err)
	}
	if diff := cmp.Diff(map[netns.Inode]int{m.inode("pod"): 30}, got.oldest); diff != "" {
		t.Errorf("oldest processes (-want +got):\n%s", diff)
	}
}

func TestACgroupThatHasEndedHasNoProcesses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	must(t, os.RemoveAll(m.cgroup))
	got, err := m.find()
	must(t, err)
	if len(got.oldest) != 0 {
		t.Errorf("got %v, want none", got.oldest)
	}
}
