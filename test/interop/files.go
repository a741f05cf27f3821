// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// Sizes of the files, in bytes.
const (
	largeSize   = 5_000_000
	chunkedSize = 1_000_000
	smallCount  = 100
)

// smallSize makes small files differ in length: a body that ends in the wrong
// place cannot pass for another.
func smallSize(n int) int64 { return int64(100 + 7*n) }

// files are the directories that clients and servers share.
type files struct {
	// served is what servers serve and clients upload.
	served string
	// store is where a server keeps uploads.
	store string
}

// newFiles writes the files to serve.
func newFiles(t testing.TB) files {
	t.Helper()
	f := files{served: openDirectory(t), store: openDirectory(t)}
	write := func(name string, seed uint64, size int64) {
		if err := writeBody(filepath.Join(f.served, name), seed, size); err != nil {
			t.Fatal(err)
		}
	}
	write("large", 1, largeSize)
	write("chunked", 2, chunkedSize)
	for n := range smallCount {
		write(fmt.Sprintf("small/%02d", n), uint64(100+n), smallSize(n))
	}
	return f
}

// openDirectory makes a directory for servers that run as users of their own.
func openDirectory(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("", "shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeBody(path string, seed uint64, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, body.New(seed, size)); err != nil {
		return err
	}
	return file.Close()
}

// withStore returns the same files with another store.
func (f files) withStore(t testing.TB) files {
	t.Helper()
	f.store = openDirectory(t)
	return f
}

// forget removes what a server kept of a case.
func (f files) forget(t testing.TB, name string) {
	t.Helper()
	for _, path := range []string{filepath.Join(f.store, name), filepath.Join(f.store, name+".trailer")} {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// concatenated describes the contents of files, one after another.
func (f files) concatenated(names []string) (size int64, digest string, err error) {
	h := sha256.New()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(f.served, name))
		if err != nil {
			return 0, "", err
		}
		size += int64(len(content))
		// A hash never fails.
		_, _ = h.Write(content)
	}
	return size, body.Sum(h), nil
}
