// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// JanitorSpec names what to remove when the test process is gone, however it
// went: a panic or a time-out runs no clean-up of its own.
type JanitorSpec struct {
	// Cgroups and Directories are glob patterns, as are Limits: cgroups of v1 controllers, whose processes are all in Cgroups.
	Cgroups, Directories, Limits string
}

// JanitorReport lists what the tests had left.
type JanitorReport struct{ Removed []string }

func runJanitor(s *stdio) error {
	var spec JanitorSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	s.waitForEnd()
	report := JanitorReport{Removed: []string{}}
	cgroups, err := filepath.Glob(spec.Cgroups)
	if err != nil {
		return err
	}
	for _, dir := range cgroups {
		report.Removed = append(report.Removed, dir)
		if err := RemoveCgroup(dir); err != nil {
			return err
		}
	}
	limits, err := filepath.Glob(spec.Limits)
	if err != nil {
		return err
	}
	for _, dir := range limits {
		report.Removed = append(report.Removed, dir)
		if err := removeBusy(dir); err != nil {
			return err
		}
	}
	directories, err := filepath.Glob(spec.Directories)
	if err != nil {
		return err
	}
	for _, dir := range directories {
		report.Removed = append(report.Removed, dir)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	// Nobody may be left to read it.
	_ = s.answer(report)
	return nil
}

// RemoveCgroup kills what runs in a cgroup v2 directory and removes it.
func RemoveCgroup(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill the processes of cgroup %s: %w", dir, err)
	}
	return removeBusy(dir)
}

// removeBusy removes the directory of a cgroup whose processes are about to end.
func removeBusy(dir string) error {
	const patience = 30 * time.Second
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ticker.C {
		// Busy until the last process is gone.
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("remove cgroup %s: %w", dir, err)
}
