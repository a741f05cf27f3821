// SPDX-License-Identifier: Apache-2.0

package adminserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// writeAddress writes where the admin API listens to a file, as Envoy's --admin-address-path. A program that waits for the file finds it whole, or
// finds no file where it could not be written.
func writeAddress(path, address string) error {
	err := replaceFile(path, []byte(address))
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // its path is that of a file which is there for a moment
	}
	return fmt.Errorf("write the address of the admin API to %s: %w; name a file that can be written with --admin-address-path", path, err)
}

// replaceFile writes a file beside the one that is meant, and then puts it in its place. What cannot be replaced is written to: a device, a pipe, a file
// that is a mount point or whose directory cannot be written.
func replaceFile(path string, content []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content, fileMode)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	err := writeBeside(path, content)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EBUSY) {
		return os.WriteFile(path, content, fileMode)
	}
	return err
}

const fileMode = 0o644

// writeBeside is replaceFile for a regular file, or one that does not exist. Nothing is left of an attempt that fails.
func writeBeside(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(fileMode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		// It says nothing of why the file could not be written.
		_ = os.Remove(f.Name())
	}
	return err
}
