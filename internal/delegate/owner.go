// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// prefix begins the names of cgroups and directories of delegates.
const prefix = "xlb-delegate-"

// own makes a directory that is this daemon's as long as the file is open: others see by its lock (flock(2)) that the daemon runs, in other PID namespaces too.
func own(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// Before it had its lock another daemon may have removed it.
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeStale removes, in a directory, what daemons owned that run no more. Errors are left: the next start tries again.
func removeStale(in string, remove func(path string) error) {
	found, err := filepath.Glob(filepath.Join(in, prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		removeUnowned(path, remove)
	}
}

func removeUnowned(path string, remove func(path string) error) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = remove(path)
	}
}
