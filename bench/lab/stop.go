// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"slices"
)

// StopAll stops processes, the last started first.
func StopAll(processes []*Process) error {
	var errs []error
	for _, p := range slices.Backward(processes) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
