// SPDX-License-Identifier: Apache-2.0

// Package hangup receives SIGHUP from the first milliseconds of the process on. Go's default action for it is death until somebody asks for
// it, and to initialise the packages of protocol buffers takes some 0.1 s before main can ask: an operator's reload then ends a daemon that has just
// been started. Go initialises packages whose imports are ready in the order of their paths, so this package must import nothing but os/signal and what
// that imports: TestHangupIsInitialisedFirst holds it to that.
package hangup

import (
	"os"
	"os/signal"
	"syscall"
)

// early has a SIGHUP that nobody has taken yet. One says as much as many.
var early = make(chan os.Signal, 1)

func init() { signal.Notify(early, syscall.SIGHUP) }

// Take returns the channel of SIGHUP for a command that reloads. What came before the call is dropped: the caller has still to read its
// files, and so needs no reload for it.
func Take() <-chan os.Signal {
	signal.Notify(early, syscall.SIGHUP)
	select {
	case <-early:
	default:
	}
	return early
}

// End leaves SIGHUP without effect, for a command that reloads and ends: what comes now is too late for a reload, and no reason to end otherwise than asked to.
func End() { signal.Ignore(syscall.SIGHUP) }

// Default gives SIGHUP back the action that it had when the process began, death or, as below nohup, none. One that came meanwhile takes
// effect now.
func Default() {
	signal.Reset(syscall.SIGHUP)
	select {
	case <-early:
		// A process may send itself whatever it likes.
		_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
	default:
	}
}
