// SPDX-License-Identifier: Apache-2.0

package node

import "errors"

// errEnding says that the daemon ends before a configuration was ready to be put in force.
var errEnding = errors.New("the daemon is ending")

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
