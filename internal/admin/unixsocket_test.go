// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
)

// socketPath is a path in a directory that every user can enter.
func socketPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "admin.sock")
}

// takeSocket takes a Unix socket until the test ends.
func takeSocket(t *testing.T, path string, mode fs.FileMode) net.Listener {
	t.Helper()
	l, err := ListenUnix(t.Context(), path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// leaveStale leaves a socket behind at which no process listens, as a daemon does that was killed.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func fileAt(t *testing.T, path string) (s unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func requireGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// The mode is right behind a umask of any kind, and before it is set right it has nothing that was not asked for.
func TestModeOfTheSocketIsNeverWiderThanAskedFor(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o777} {
		for asked, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o600: 0o600, 0o660: 0o660, 0o666: 0o666, 0o200: 0o200, 0o755: 0o755} {
			path := socketPath(t)
			before := unix.Umask(umask)
			bound, failed := bindUnix(t.Context(), path, want)
			if failed == nil {
				if got := fs.FileMode(fileAt(t, path).Mode) & fs.ModePerm; got&^want != 0 {
					t.Errorf("umask %03o, mode %03o: bound with %03o", umask, want, got)
				}
				failed = errors.Join(bound.Close(), os.Remove(path))
			}
			l, err := ListenUnix(t.Context(), path, asked)
			unix.Umask(before)
			if err = errors.Join(failed, err); err != nil {
				t.Fatal(err)
			}
			if got := fs.FileMode(fileAt(t, path).Mode) & fs.ModePerm; got != want {
				t.Errorf("umask %03o, mode %03o: got %03o, want %03o", umask, asked, got, want)
			}
			l.Close()
			requireGone(t, path)
		}
	}
}

func TestStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	path := socketPath(t)
	leaveStale(t, path)
	l := takeSocket(t, path, 0)
	before := fileAt(t, path)
	_, err := ListenUnix(t.Context(), path, 0)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "admin address unix:"+path+": a process listens there; stop it (ss -lxp src "+path+"), or choose another path with --admin") {
		t.Errorf("a live socket: got %v", err)
	}
	if _, ok := errors.AsType[*ListenError](err); !ok {
		t.Errorf("got %T, want a *ListenError", err)
	}
	if after := fileAt(t, path); after.Ino != before.Ino {
		t.Error("a live socket was replaced")
	}
	l.Close()
	requireGone(t, path)
}

// One with no room for another connection is not mistaken for one at which no process listens, nor is one of another type.
func TestBusyAndOtherSocketsAreNotReplaced(t *testing.T) {
	for name, kind := range map[string]int{"no room": unix.SOCK_STREAM, "datagrams": unix.SOCK_DGRAM, "packets": unix.SOCK_SEQPACKET} {
		path := socketPath(t)
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		if kind != unix.SOCK_DGRAM {
			if err := unix.Listen(fd, 0); err != nil {
				t.Fatal(err)
			}
		}
		if kind == unix.SOCK_STREAM {
			waiting, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer waiting.Close()
		}
		before := fileAt(t, path)
		if _, err := ListenUnix(t.Context(), path, 0); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: got %v, want %v", name, err, syscall.EADDRINUSE)
		}
		if after := fileAt(t, path); after.Ino != before.Ino {
			t.Errorf("%s: was replaced", name)
		}
	}
}

func TestFilesThatAreNoSocketsStay(t *testing.T) {
	for want, make := range map[string]func(path string) error{
		"a regular file":  func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link": func(path string) error { return os.Symlink("nowhere", path) },
		"mode p":          func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		path := socketPath(t)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		before := fileAt(t, path)
		_, err := ListenUnix(t.Context(), path, 0)
		if err == nil || !strings.Contains(err.Error(), "("+want) || !strings.HasSuffix(err.Error(), "which stays as it is; remove it, or choose another path") {
			t.Errorf("%s: got %v", want, err)
		}
		if after := fileAt(t, path); after != before {
			t.Errorf("%s: has changed: %+v, was %+v", want, after, before)
		}
	}
}

// A link is not followed, wherever it leads.
func TestLinkToAStaleSocketStays(t *testing.T) {
	stale, link := socketPath(t), socketPath(t)
	leaveStale(t, stale)
	before := fileAt(t, stale)
	if err := os.Symlink(stale, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(t.Context(), link, 0); err == nil || !strings.Contains(err.Error(), "(a symbolic link)") {
		t.Errorf("got %v", err)
	}
	if after := fileAt(t, stale); after != before {
		t.Errorf("the socket that the link leads to has changed: %+v, was %+v", after, before)
	}
}

func TestPathsThatCannotBeTaken(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	open, sticky, file := filepath.Join(dir, "open"), filepath.Join(dir, "sticky"), filepath.Join(dir, "file")
	err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Mkdir(sticky, 0o700), os.Chmod(sticky, 0o777|fs.ModeSticky), os.WriteFile(file, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	longest := dir + "/" + strings.Repeat("a", 107-len(dir)-1)
	for path, want := range map[string]string{
		"@xlb":                "an abstract socket has no mode",
		"admin.sock":          `"admin.sock" is no absolute path; want one`,
		"":                    `"" is no absolute path; want one`,
		"//run/admin.sock":    "is no absolute path",
		dir + "/a\x00b":       "has a zero byte in it",
		longest + "a":         "108 bytes, and the path of a Unix socket has at most 107; choose a shorter one",
		dir + "/missing/sock": "there is no directory " + dir + "/missing; create it",
		file + "/sock":        file + " is no directory; choose another path",
		open + "/sock":        "every user may write to directory " + open,
		longest:               "",
		sticky + "/sock":      "",
		"//" + dir + "/three": "",
	} {
		l, err := Listen(t.Context(), UnixScheme+path)
		switch {
		case err == nil && want == "":
			l.Close()
			requireGone(t, path)
		case err == nil || want == "" || !strings.HasPrefix(err.Error(), "admin address unix:"+path+": ") || !strings.Contains(err.Error(), want):
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}

// What has taken the listener's place at the path is left alone, also by a second Close, when the file's number may have another owner.
func TestOnlyTheOwnFileIsRemovedAtTheEnd(t *testing.T) {
	path := socketPath(t)
	first := takeSocket(t, path, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := takeSocket(t, path, 0)
	kept := fileAt(t, path)
	for range 2 {
		first.Close()
		if now := fileAt(t, path); now.Ino != kept.Ino {
			t.Fatal("the file of another listener was removed")
		}
	}
	second.Close()
	requireGone(t, path)
	third := takeSocket(t, path, 0)
	second.(*unixListener).file = third.(*unixListener).file
	second.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a second Close has removed the file of another listener: %v", err)
	}
	third.Close()
}

// Of daemons that find a stale socket at the same time one gets its place, and keeps it.
func TestOneOfManyReplacesAStaleSocket(t *testing.T) {
	before := lockTime
	lockTime = await.Patience
	t.Cleanup(func() { lockTime = before })
	path := socketPath(t)
	for range 20 {
		leaveStale(t, path)
		taken := make([]net.Listener, 8)
		var all sync.WaitGroup
		for i := range taken {
			all.Go(func() {
				l, err := ListenUnix(t.Context(), path, 0)
				if err == nil {
					taken[i] = l
				} else if !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		n := 0
		for _, l := range taken {
			if l == nil {
				continue
			}
			n++
			if c, err := net.Dial("unix", path); err != nil {
				t.Error(err)
			} else {
				c.Close()
			}
			l.Close()
		}
		if n != 1 {
			t.Fatalf("%d listeners have one path, want 1", n)
		}
		requireGone(t, path)
	}
}

// Every user who may read a directory can lock it for ever.
func TestALockOfOthersKeepsNoDaemonOut(t *testing.T) {
	path := socketPath(t)
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	leaveStale(t, path)
	takeSocket(t, path, 0)
}
