// SPDX-License-Identifier: Apache-2.0

package adminserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const adminAddress = "127.0.0.1:9901"

func mustContain(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
	}
}

func mustHold(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %v, want %v", dir, got, want)
	}
}

// inOwnMounts runs f on a thread that has file systems of its own, and ends with f.
func inOwnMounts(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAdminAddressReplacesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "address"), filepath.Join(dir, "link")
	for _, address := range []string{"[::1]:12345", adminAddress} {
		if err := writeAddress(path, address); err != nil {
			t.Fatal(err)
		}
		mustContain(t, path, address)
	}
	if err := os.Symlink("address", link); err != nil {
		t.Fatal(err)
	}
	if err := writeAddress(link, "127.0.0.2:1"); err != nil {
		t.Fatal(err)
	}
	mustContain(t, path, "127.0.0.2:1")
	if to, err := os.Readlink(link); err != nil || to != "address" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	mustHold(t, dir, "address", "link")
	if info, err := os.Stat(path); err != nil || info.Mode() != fileMode {
		t.Errorf("mode %v, %v; want %o", info.Mode(), err, fileMode)
	}
}

// As with --admin-address-path /dev/stderr.
func TestAdminAddressIsWrittenToWhatIsNoFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	link := filepath.Join(t.TempDir(), "stderr")
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), link); err != nil {
		t.Fatal(err)
	}
	if err := writeAddress(link, adminAddress); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64)
	if n, err := r.Read(got); err != nil || string(got[:n]) != adminAddress {
		t.Errorf("got %q, %v", got[:n], err)
	}
}

// A file that a container has from its host.
func TestAdminAddressIsWrittenToAMountPoint(t *testing.T) {
	dir := t.TempDir()
	path, source := filepath.Join(dir, "address"), filepath.Join(dir, "source")
	for _, file := range []string{path, source} {
		if err := os.WriteFile(file, []byte("before, and longer than what comes"), fileMode); err != nil {
			t.Fatal(err)
		}
	}
	inOwnMounts(t, func() error {
		return errors.Join(unix.Mount(source, path, "", unix.MS_BIND, ""), writeAddress(path, adminAddress))
	})
	mustContain(t, source, adminAddress)
	mustHold(t, dir, "address", "source")
}

func TestAdminAddressLeavesNoFileOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "address")
	inOwnMounts(t, func() error {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4096), fileMode); err != nil {
			return err
		}
		err := writeAddress(path, adminAddress)
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), path+": no space left") {
			t.Errorf("got %v, want %v, and the path", err, unix.ENOSPC)
		}
		mustHold(t, dir, "full")
		return nil
	})
}

func TestAdminAddressNamesADirectoryThatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "address")
	err := writeAddress(path, adminAddress)
	if err == nil || !strings.Contains(err.Error(), path+": no such file or directory; ") {
		t.Errorf("got %v", err)
	}
}
