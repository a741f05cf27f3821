// SPDX-License-Identifier: Apache-2.0

package metrics

// Delegate is an Envoy that runs beside the daemon.
type Delegate struct {
	// Up: it runs, and answers.
	Up bool `json:"up"`
	// Starts counts processes that were started, Ends those that ended unexpectedly.
	Starts uint64 `json:"starts"`
	Ends   uint64 `json:"ends"`
	// Memory of all its processes, in bytes; 0: not known.
	Memory uint64 `json:"memory_bytes"`
	// Dropped counts lines of its output that are not in the log.
	Dropped uint64 `json:"dropped_lines"`
}

var (
	delegateUp = describe("xlb_delegate_up",
		"1 while the delegate runs and answers; without --delegate there is no such line.")
	delegateStarts = describe("xlb_delegate_starts_total",
		"Processes of the delegate that were started: for each configuration, and again after an end.")
	delegateEnds = describe("xlb_delegate_ends_total",
		"Processes of the delegate that ended although they were to serve, or did not answer for 15 seconds.")
	delegateMemory = describe("xlb_delegate_memory_bytes",
		"Memory that all processes of the delegate take, as its cgroup has it; 0 where that is not known.")
	delegateDropped = describe("xlb_delegate_dropped_lines_total",
		"Lines that the delegate wrote and the log does not have, since there were more than 10 a second.")
)

// delegate writes those of the delegate; nil: there is no delegate.
func (out emitter) delegate(d *Delegate) {
	if d == nil {
		return
	}
	out.gauge(delegateUp, number(d.Up))
	out.counter(delegateStarts, d.Starts)
	out.counter(delegateEnds, d.Ends)
	out.gauge(delegateMemory, d.Memory)
	out.counter(delegateDropped, d.Dropped)
}

func (l *list) addDelegate(d *Delegate) {
	if d == nil {
		return
	}
	l.add("xlb.delegate.up", number(d.Up))
	l.add("xlb.delegate.starts", d.Starts)
	l.add("xlb.delegate.ends", d.Ends)
	l.add("xlb.delegate.memory_bytes", d.Memory)
	l.add("xlb.delegate.dropped_lines", d.Dropped)
}
