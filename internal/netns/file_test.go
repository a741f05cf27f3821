// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesOfNetworkNamespacesAreToldFromOthers(t *testing.T) {
	own, err := InodeOf(ofThread)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, pipe, link, dangling := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	for _, err := range []error{
		os.WriteFile(file, nil, 0o600), unix.Mkfifo(pipe, 0o600), os.Symlink("/proc/self/ns/net", link), os.Symlink("nowhere", dangling),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, path string
		want       Inode
		err        error
	}{
		{"of a process", "/proc/self/ns/net", own, nil},
		{"a link to it", link, own, nil},
		{"a namespace of another kind", "/proc/self/ns/mnt", Inode{}, ErrNoNamespace},
		{"a regular file", file, Inode{}, ErrNoNamespace},
		{"a pipe without a writer", pipe, Inode{}, ErrNoNamespace},
		{"a directory", dir, Inode{}, ErrNoNamespace},
		{"a device", "/dev/null", Inode{}, ErrNoNamespace},
		{"a link to nothing", dangling, Inode{}, fs.ErrNotExist},
		{"nothing", filepath.Join(dir, "none"), Inode{}, fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := InodeOfFile(tt.path)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v, want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}
