// SPDX-License-Identifier: Apache-2.0

// Package files reads files that a configuration names. It may come from a control plane, so that a name is not to be trusted: a device has no
// end, and a pipe may have nobody at the other one.
package files

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Text is the limit for certificates, keys and texts of answers, in bytes.
const Text = 4 << 20

// open does not wait for somebody to open the other end of a pipe: nothing, not even SIGTERM, would end that.
func open(path string) (*os.File, error) {
	if IsText(path) {
		return nil, errText
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Begin returns the first n bytes, or as many as there are, of a file that the operator names, which may be a pipe.
func Begin(path string, n int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// Read returns what is in a regular file, or one that links lead to, of at most limit bytes. The error names the file.
func Read(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	// It may grow meanwhile.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, limit)
	}
	return data, nil
}
