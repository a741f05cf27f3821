// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// nameSpace has the calling goroutine, which ends with its thread, make a network namespace, and mount it over the file.
func nameSpace(path string) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread of the process does not end. While this goroutine has it, the next one gets another.
		defer runtime.UnlockOSThread()
		return apart(func() error { return nameSpace(path) })
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace (the tests need root): %w", err)
	}
	return mountAt("/proc/thread-self/ns/net", path)
}

// apart runs do on a goroutine of its own.
func apart(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return <-done
}

func mountAt(from, path string) error {
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	return os.NewSyscallError("mount", unix.Mount(from, path, "", unix.MS_BIND, ""))
}

// folder is a watched directory of the test's own. Paths are relative to it.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) *folder { return &folder{t, t.TempDir()} }

func (f *folder) at(name string) string { return filepath.Join(f.dir, name) }

// add makes a network namespace with a name, which goes with the test.
func (f *folder) add(name string) netns.Inode {
	f.t.Helper()
	must(f.t, apart(func() error { return nameSpace(f.at(name)) }))
	return f.mounted(name)
}

// mount gives what a file is another name.
func (f *folder) mount(from, name string) netns.Inode {
	f.t.Helper()
	must(f.t, mountAt(from, f.at(name)))
	return f.mounted(name)
}

func (f *folder) mounted(name string) netns.Inode {
	f.t.Helper()
	f.t.Cleanup(func() {
		// The test may have removed it.
		_ = unix.Unmount(f.at(name), unix.MNT_DETACH)
	})
	inode, err := netns.InodeOf(f.at(name))
	must(f.t, err)
	return inode
}

func (f *folder) remove(name string) {
	f.t.Helper()
	must(f.t, unix.Unmount(f.at(name), unix.MNT_DETACH))
	must(f.t, os.Remove(f.at(name)))
}

func (f *folder) write(name string) {
	f.t.Helper()
	must(f.t, os.WriteFile(f.at(name), nil, 0o444))
}

// mustFind looks, and demands these new names.
func mustFind(t *testing.T, n *names, want ...named) {
	t.Helper()
	got, err := n.look()
	must(t, err)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(named{})); diff != "" {
		t.Errorf("new names (-want +got):\n%s", diff)
	}
}

func mustBeCalled(t *testing.T, n *names, inode netns.Inode, want string) {
	t.Helper()
	if got := n.pathOf(inode); got != want {
		t.Errorf("namespace %v is called %q, want %q", inode, got, want)
	}
}

func TestANamespaceThatGetsANameIsFoundOnce(t *testing.T) {
	t.Parallel()
	f, g := newFolder(t), newFolder(t)
	first := f.add("first")
	n := newNames([]string{f.dir, g.dir})
	mustFind(t, n)
	mustBeCalled(t, n, first, f.at("first"))
	c, b, a := g.add("a"), f.add("z"), f.add("b")
	mustFind(t, n, named{f.at("b"), a}, named{f.at("z"), b}, named{g.at("a"), c})
	mustFind(t, n)
	mustBeCalled(t, n, a, f.at("b"))
	mustBeCalled(t, n, c, g.at("a"))
}

func TestAFileBecomesANameWhenANamespaceIsMountedOverIt(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("early")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	f.write("late")
	mustFind(t, n)
	early, late := f.add("early"), f.add("late")
	mustFind(t, n, named{f.at("early"), early}, named{f.at("late"), late})
}

func TestASecondNameMakesNoNamespaceNew(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	old := f.add("old")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	f.mount(f.at("old"), "a second of old")
	both := f.add("y")
	f.mount(f.at("y"), "z")
	mustFind(t, n, named{f.at("y"), both})
	// The name that sorts first is the later one.
	mustFind(t, n)
	mustBeCalled(t, n, old, f.at("old"))
	mustBeCalled(t, n, both, f.at("y"))
	f.remove("old")
	f.remove("y")
	mustFind(t, n)
	mustBeCalled(t, n, old, f.at("a second of old"))
	mustBeCalled(t, n, both, f.at("z"))
}

func TestANamespaceThatHasLostItsNameIsNewWithTheNext(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	inode := f.add("a")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	away := newFolder(t)
	away.mount(f.at("a"), "away")
	// The file stays.
	must(t, unix.Unmount(f.at("a"), unix.MNT_DETACH))
	mustFind(t, n)
	mustBeCalled(t, n, inode, "")
	f.mount(away.at("away"), "b")
	mustFind(t, n, named{f.at("b"), inode})
	// As one is that is made while no look is: it may have the inode of one that has ended.
	f.remove("b")
	f.mount(away.at("away"), "c")
	mustFind(t, n, named{f.at("c"), inode})
}

func TestANameThatIsMadeAgainForAnotherNamespaceIsNew(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	before := f.add("pod")
	newFolder(t).mount(f.at("pod"), "stays")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	f.remove("pod")
	now := f.add("pod")
	mustFind(t, n, named{f.at("pod"), now})
	mustBeCalled(t, n, before, "")
	mustBeCalled(t, n, now, f.at("pod"))
}

func TestOtherFilesAreNoNames(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	n := newNames([]string{f.dir})
	mustFind(t, n)
	f.write("file")
	must(t, os.Mkdir(f.at("directory"), 0o755))
	must(t, unix.Mkfifo(f.at("pipe"), 0o600))
	must(t, unix.Mknod(f.at("terminal"), unix.S_IFCHR|0o600, int(unix.Mkdev(5, 0))))
	must(t, unix.Mknod(f.at("device without a driver"), unix.S_IFCHR|0o600, int(unix.Mkdev(4095, 0))))
	must(t, os.Symlink("pipe", f.at("link to a pipe")))
	must(t, os.Symlink("missing", f.at("link to nothing")))
	must(t, os.Symlink("/proc/2147483647/ns/net", f.at("link to a process that has ended")))
	f.mount("/proc/self/ns/uts", "namespace of host names")
	f.mount("/proc/self/ns/user", "user namespace")
	mustFind(t, n)
	must(t, os.Symlink("/proc/self/ns/net", f.at("link to a process")))
	own, err := netns.InodeOf("/proc/self/ns/net")
	must(t, err)
	mustFind(t, n, named{f.at("link to a process"), own})
}

func TestALinkInACircleIsReportedAndTheOthersAreFound(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	n := newNames([]string{f.dir})
	mustFind(t, n)
	must(t, os.Symlink("circle", f.at("circle")))
	pod := f.add("pod")
	got, err := n.look()
	if !errors.Is(err, unix.ELOOP) || !strings.Contains(err.Error(), f.at("circle")) {
		t.Errorf("got %v, want %v and the path", err, unix.ELOOP)
	}
	if diff := cmp.Diff([]named{{f.at("pod"), pod}}, got, cmp.AllowUnexported(named{})); diff != "" {
		t.Errorf("new names (-want +got):\n%s", diff)
	}
}

func TestADirectoryThatAppearsHasNewNames(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	n := newNames([]string{f.at("below") + "/"})
	mustFind(t, n)
	must(t, os.Mkdir(f.at("below"), 0o755))
	pod := f.add("below/pod")
	mustFind(t, n, named{f.at("below/pod"), pod})
	f.remove("below/pod")
	must(t, os.Remove(f.at("below")))
	mustFind(t, n)
	mustBeCalled(t, n, pod, "")
}

func TestNamesThatCannotBeReadForAMomentAreNotNewAfterwards(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	below, away := f.at("below"), f.at("away")
	must(t, os.Mkdir(below, 0o755))
	pod := f.add("below/pod")
	mustFail := func(n *names) {
		t.Helper()
		// A directory with a mount can be renamed. What opens a pipe waits.
		must(t, os.Rename(below, away))
		must(t, unix.Mkfifo(below, 0o600))
		if got, err := n.look(); !errors.Is(err, unix.ENOTDIR) || !strings.Contains(err.Error(), below) || len(got) != 0 {
			t.Errorf("got %v, %v; want %v and the path", got, err, unix.ENOTDIR)
		}
		must(t, os.Remove(below))
		must(t, os.Rename(away, below))
	}
	n := newNames([]string{below})
	mustFail(n)
	mustFind(t, n)
	mustFail(n)
	mustBeCalled(t, n, pod, f.at("below/pod"))
	mustFind(t, n)
}

func TestFilesOverTheLimitAreCountedAndNamesAreKept(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	old := f.add("old")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	const excess = 3
	for i := range maxNames - 1 + excess {
		f.write(fmt.Sprint(i))
	}
	got, err := n.look()
	if want := fmt.Sprintf("%s has %d files more than the %d", f.dir, excess, maxNames); err == nil || !strings.Contains(err.Error(), want) || len(got) != 0 {
		t.Errorf("got %v, %v; want %q", got, err, want)
	}
	mustBeCalled(t, n, old, f.at("old"))
	for i := range excess {
		must(t, os.Remove(f.at(fmt.Sprint(i))))
	}
	mustFind(t, n)
}

func TestALookHoldsNoNamespaceOpen(t *testing.T) {
	f := newFolder(t)
	pod := f.add("pod")
	n := newNames([]string{f.dir})
	mustFind(t, n)
	f.remove("pod")
	f.add("later")
	if _, err := n.look(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, file := range files {
		if inode, err := netns.InodeOf(filepath.Join("/proc/self/fd", file.Name())); err == nil && inode == pod {
			t.Errorf("descriptor %s is the namespace still", file.Name())
		}
	}
}
