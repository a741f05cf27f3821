// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Pipe is a Unix socket to listen at (envoy.config.core.v3.Pipe); the zero value means none.
type Pipe struct {
	// Path is absolute.
	Path string
	// Mode has the permissions of the file; 0 leaves them to what listens.
	Mode fs.FileMode
}

// maxPipePath is the length in bytes of the longest path that a Unix socket can have: sun_path of struct sockaddr_un, without the zero at its end (unix(7)).
const maxPipePath = 107

// CheckPipePath refuses what cannot be the path of a Unix socket, or what is no file and so has no mode.
func CheckPipePath(path string) error {
	switch {
	case strings.HasPrefix(path, "@"):
		return errors.New("an abstract socket has no mode: every process of the network namespace could connect to it; want the path of a file, as /run/xlb/admin.sock")
	case !filepath.IsAbs(path) || strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return fmt.Errorf("%q is no absolute path; want one, as /run/xlb/admin.sock", path)
	case strings.Contains(path, "\x00"):
		return fmt.Errorf("%q has a zero byte in it; leave it out", path)
	case len(path) > maxPipePath:
		return fmt.Errorf("%d bytes, and the path of a Unix socket has at most %d; choose a shorter one", len(path), maxPipePath)
	}
	return nil
}
