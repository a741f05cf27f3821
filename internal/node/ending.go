// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
)

// errEnding says that the daemon ends before a configuration was ready to be put in force.
var errEnding = errors.New("the daemon is ending")

// isRefusal reports whether an error says that a configuration was refused. The end of the daemon refuses nothing: there is nothing to log, to count, or to
// try again.
func isRefusal(err error) bool { return err != nil && !errors.Is(err, errEnding) }

// besidesEnding is what an error says beside that the daemon ends, such as what its clean-up has failed at. The texts around that stay.
func besidesEnding(err error) error {
	if !errors.Is(err, errEnding) {
		return err
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, one := range several.Unwrap() {
			rest = append(rest, besidesEnding(one))
		}
		return errors.Join(rest...)
	}
	inner := errors.Unwrap(err)
	rest := besidesEnding(inner)
	if inner == nil || rest == nil {
		return nil
	}
	before, behind, _ := strings.Cut(err.Error(), inner.Error())
	return fmt.Errorf("%s%w%s", before, rest, behind)
}

// unlessEnded returns what work returns; false once ending is closed. Then work may run on until the process ends, in a goroutine that nobody
// waits for, and is not begun any more, so work must touch nothing that the end of the daemon needs.
func unlessEnded[T any](ending <-chan struct{}, work func() T) (_ T, ok bool) {
	var none T
	select {
	case <-ending:
		return none, false
	default:
	}
	made := make(chan T, 1)
	go func() { made <- work() }()
	select {
	case v := <-made:
		return v, true
	case <-ending:
		return none, false
	}
}
