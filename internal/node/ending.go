// SPDX-License-Identifier: Apache-2.0

package node

import "errors"

// errEnding says that the daemon ends before a configuration was ready to be put in force.
var errEnding = errors.New("the daemon is ending")

// isRefusal reports whether an error says that a configuration was refused. The end of the daemon refuses nothing: there is nothing to log, to count, or to
// try again.
func isRefusal(err error) bool { return err != nil && !errors.Is(err, errEnding) }

// severalErrors is what errors.Join returns.
type severalErrors interface {
	error
	Unwrap() []error
}

// besidesEnding is what an error says beside that the daemon ends, such as what its clean-up has failed at.
func besidesEnding(err error) error {
	several, ok := errors.AsType[severalErrors](err)
	switch {
	case ok:
		var rest []error
		for _, one := range several.Unwrap() {
			rest = append(rest, besidesEnding(one))
		}
		return errors.Join(rest...)
	case isRefusal(err):
		return err
	}
	return nil
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
