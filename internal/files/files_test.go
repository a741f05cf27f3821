// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOnlyRegularFilesWithinTheLimitAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("file"), []byte("hello"), 0o600))
	must(os.Symlink("file", at("link")))
	must(os.Symlink("loop", at("loop")))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	tests := []struct {
		name, path string
		limit      int64
		want       string // of the error; empty: it is read
	}{
		{"a file", at("file"), 5, ""},
		{"a link to it", at("link"), 5, ""},
		{"longer", at("file"), 4, "file: longer than 4 bytes"},
		{"missing", at("none"), 5, "none: no such file"},
		{"a folder", dir, 5, "not a regular file"},
		{"a pipe without a writer", at("pipe"), 5, "pipe: not a regular file"},
		{"a device without an end", "/dev/zero", 5, "/dev/zero: not a regular file"},
		{"a file of the kernel's", "/proc/kmsg", 5, "/proc/kmsg: a file of procfs"},
		{"a link to one", "/proc/self/status", 5000, "a file of procfs"},
		{"links in a circle", at("loop"), 5, "too many levels of symbolic links"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read(tt.path, tt.limit)
			if tt.want == "" && (err != nil || string(got) != "hello") {
				t.Errorf("got %q, %v", got, err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A file server has a lease for writing while one of its clients has the file open. Who opens the file has it give that up.
func TestFileThatAnotherProcessHasALeaseForIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	set := func(lease int) {
		t.Helper()
		if err := control(server, func(fd int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, lease); return err }); err != nil {
			t.Error(err)
		}
	}
	set(unix.F_WRLCK)
	given := time.AfterFunc(5*leasePace, func() { set(unix.F_UNLCK) })
	defer given.Stop()
	if got, err := Read(path, Text); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// What a file is does not pass; what it takes to read it may.
func TestErrorsThatPass(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, dir + "/none", "/dev/zero", "/proc/self/status", "-----BEGIN"} {
		if _, err := Read(path, Text); err == nil || Passes(err) {
			t.Errorf("%q: %v passes", path, err)
		}
		if _, err := Begin(path, 1); err != nil && Passes(err) {
			t.Errorf("%q: %v passes", path, err)
		}
	}
	for _, err := range []error{errHangs, unix.EACCES, unix.EIO, unix.ENFILE, &os.PathError{Op: "open", Path: "x", Err: unix.ESTALE}} {
		if !Passes(err) {
			t.Errorf("%v does not pass", err)
		}
	}
}

// Whoever reads block by block takes the beginning of a bundle for all of it.
func TestTextThatEndsWithinABlockIsRefused(t *testing.T) {
	const block = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
	for text, whole := range map[string]bool{
		"": true, "nothing in PEM": true, block: true, "# first\n" + block + "# second\n" + block: true, strings.TrimSpace(block): true,
		block[:40]: false, block + block[:len(block)/2]: false, block + block[:len(block)-10]: false, block + "-----BEGIN CERT": false,
	} {
		if err := CheckPEM([]byte(text)); (err == nil) != whole {
			t.Errorf("%q: %v", text, err)
		}
	}
}
