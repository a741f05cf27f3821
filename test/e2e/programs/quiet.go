// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// quiet starts the program again without the signals by which Go's runtime interrupts its threads: on a socket of the fast path a signal
// makes a blocking recv fail (docs/limits.md), and these programs look at everything else. It must come before the first read
// of standard input.
func quiet() error {
	const variable, value = "GODEBUG", "asyncpreemptoff=1"
	if os.Getenv(variable) == value {
		return nil
	}
	if err := os.Setenv(variable, value); err != nil {
		return err
	}
	return fmt.Errorf("start again: %w", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}
