// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
)

// Exit codes. A caller can tell what it can mend itself from what went wrong.
const (
	exitOK = 0
	// exitFailure: something went wrong while running.
	exitFailure = 1
	// exitRefused: the command line, the configuration or the machine does not allow it.
	exitRefused = 2
)

// exitError gives an error an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// refused marks an error that lies in the command line, the configuration or the
// machine. Nil stays nil.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitRefused, err: err}
}

// runError is an error that a verb returned, not the parsing of its arguments.
type runError struct{ err error }

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

// exitCode maps an error to the code of the process.
func exitCode(err error) int {
	var (
		exit   *exitError
		run    *runError
		field  *config.FieldError
		listen *admin.ListenError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case !errors.As(err, &run), errors.As(err, &field), errors.As(err, &listen), errors.Is(err, check.ErrNoCgroup):
		return exitRefused
	default:
		return exitFailure
	}
}

// printError writes an error, one line for each problem in it.
func printError(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(w, "xlb: %s\n", line)
		}
	}
}
