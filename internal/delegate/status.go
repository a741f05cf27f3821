// SPDX-License-Identifier: Apache-2.0

package delegate

import "time"

// State says what a delegate is doing.
type State string

// The states of a delegate.
const (
	// Starting: the first one with a configuration has not said yet that it is ready.
	Starting State = "starting"
	// Ready: one runs, and answers.
	Ready State = "ready"
	// Crashing: it has ended unexpectedly, and is started again after a while.
	Crashing State = "crashing"
	// Refused: Envoy has refused the configuration, and no former one runs.
	Refused State = "refused"
	// Unsupported: the configuration has something that a delegate cannot be given.
	Unsupported State = "unsupported"
	// Ended: the daemon ends.
	Ended State = "ended"
)

// Status is what is to be seen of a delegate.
type Status struct {
	State State
	// Program is its path, Version as in "1.40.0".
	Program, Version string
	// PID of the one that serves; 0: there is no process.
	PID int
	// User is the number of its user and group.
	User uint32
	// Since is when the one that serves was ready; zero: there is no such process.
	Since time.Time
	// Starts counts processes that were started, Ends those that ended unexpectedly.
	Starts, Ends uint64
	// Why is the reason of Crashing, Refused and Unsupported; in Ready, that of a newer configuration which is not in force. In Envoy's words where it has refused it.
	Why string
	// Listeners are those of the one that serves.
	Listeners []Listener
	// LeftOut is what it goes without, each "field.path: reason".
	LeftOut []string
	// Memory that all its processes take together, and may, in bytes; 0: not known, or not bounded.
	Memory, MemoryLimit uint64
	// CPUs that they may take together, in processors; 0: not bounded.
	CPUs float64
	// Dropped counts lines of its output that are not in the log, since there were too many.
	Dropped uint64
}

// Listener is one of a delegate's.
type Listener struct {
	// Name as in the configuration; may be empty.
	Name string
	// Socket is the path of the Unix socket that it listens at.
	Socket string
}
