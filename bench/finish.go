// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// finished is a run that has ended.
type finished struct {
	report interface {
		Save(dir string) error
		Write(w io.Writer) error
	}
	// has: the report has figures.
	has      bool
	failures int
	missed   []string
	out      string
	check    bool
}

// finish saves and prints what a run has measured, also one that was interrupted by err, and says what was missed.
func finish(cmd *cobra.Command, f finished, err error) error {
	if f.has {
		if saveErr := f.report.Save(f.out); saveErr != nil {
			err = errors.Join(err, fmt.Errorf("save results: %w", saveErr))
		}
	}
	if err != nil {
		return err
	}
	if err := f.report.Write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if f.failures > 0 {
		return fmt.Errorf("%d measurements failed and have no figures; the lines of progress say why", f.failures)
	}
	for _, one := range f.missed {
		fmt.Fprintln(cmd.ErrOrStderr(), "missed:", one)
	}
	if f.check && len(f.missed) > 0 {
		return errMissed
	}
	return nil
}
