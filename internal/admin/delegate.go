// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"time"
)

// DelegatePath is where the delegate is.
const DelegatePath = "/xlb/delegate"

// Delegate is the row of /xlb/delegate: an Envoy that runs beside the daemon, with its configuration.
type Delegate struct {
	// State is "starting", "ready", "crashing", "refused", "unsupported" or "ended".
	State   string `json:"state"`
	Program string `json:"program"`
	Version string `json:"version"`
	// PID of the process that serves; 0: there is no such process.
	PID int `json:"pid"`
	// User is the number of its user and group.
	User uint32 `json:"user"`
	// Since is when that process was ready.
	Since *time.Time `json:"since,omitempty"`
	// Starts counts processes that were started, Ends those that ended unexpectedly.
	Starts uint64 `json:"starts"`
	Ends   uint64 `json:"ends"`
	// Why says what is wrong; in the state "ready", of a newer configuration, which the process does not have.
	Why       string             `json:"why,omitempty"`
	Listeners []DelegateListener `json:"listeners"`
	// LeftOut is what the delegate goes without of the configuration, each "field.path: reason".
	LeftOut []string `json:"left_out"`
	// MemoryBytes that its processes take, and may; 0: not known, or not bounded.
	MemoryBytes uint64 `json:"memory_bytes"`
	MemoryLimit uint64 `json:"memory_limit"`
	// CPUs that they may take, in processors; 0: not bounded.
	CPUs float64 `json:"cpus"`
	// Dropped counts lines of its output that are not in the log.
	Dropped uint64 `json:"dropped_lines"`
}

// DelegateListener is where a listener of the delegate's is.
type DelegateListener struct {
	Name   string `json:"name"`
	Socket string `json:"socket"`
}

// String is a line about what is wrong; empty: nothing is.
func (d *Delegate) String() string {
	switch {
	case d.Why == "":
		return ""
	case d.State == "ready":
		return fmt.Sprintf("the delegate has an older configuration: %s", d.Why)
	}
	return fmt.Sprintf("the delegate is %s: %s", d.State, d.Why)
}

// delegateText are the lines of /ready. Requests are served without a delegate.
func delegateText(list []Delegate) string {
	text := ""
	for i := range list {
		if line := list[i].String(); line != "" {
			text += line + "\n"
		}
	}
	return text
}
