// SPDX-License-Identifier: Apache-2.0

// Package shutdown is for work that the end of the daemon interrupts: it tells that end from a refusal of a configuration.
package shutdown

import (
	"errors"
	"fmt"
	"strings"
)

// ErrEnding says that the daemon ends before a configuration was ready to be put in force.
var ErrEnding = errors.New("the daemon is ending")

// IsRefusal reports whether an error says that a configuration was refused. The end of the daemon refuses nothing: there is nothing to log, to count, or to
// try again.
func IsRefusal(err error) bool { return err != nil && !errors.Is(err, ErrEnding) }

// OtherErrors returns err without ErrEnding: what failed besides, such as the clean-up; nil: nothing did. The texts around the other errors stay.
func OtherErrors(err error) error {
	if !errors.Is(err, ErrEnding) {
		return err
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, one := range several.Unwrap() {
			rest = append(rest, OtherErrors(one))
		}
		return errors.Join(rest...)
	}
	inner := errors.Unwrap(err)
	rest := OtherErrors(inner)
	if inner == nil || rest == nil {
		return nil
	}
	before, behind, _ := strings.Cut(err.Error(), inner.Error())
	return fmt.Errorf("%s%w%s", before, rest, behind)
}

// Unless returns what work returns; false once ending is closed. Then work is not started any more, or runs on in a goroutine that is not waited for,
// until the process ends: it must touch nothing that the end of the daemon needs.
func Unless[T any](ending <-chan struct{}, work func() T) (_ T, ok bool) {
	var none T
	if HasStarted(ending) {
		return none, false
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

// HasStarted reports whether ending is closed.
func HasStarted(ending <-chan struct{}) bool {
	select {
	case <-ending:
		return true
	default:
		return false
	}
}
