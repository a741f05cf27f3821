// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
