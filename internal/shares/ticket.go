// SPDX-License-Identifier: Apache-2.0

package shares

import "time"

// state of a Ticket.
type state uint8

const (
	idle state = iota
	waiting
	running
)

// Ticket admits work for a tenant, as for one connection that is served. Several goroutines may share it: when
// one of them has yielded it, another one queues it again. The zero Ticket has no scheduler, and never
// waits. It must not be copied.
type Ticket struct {
	scheduler *Scheduler
	path      Path

	// What follows is guarded by the scheduler's mu.
	meter Meter
	state state
	// leaf is that of path, unless the ticket is idle; since is when it started to run.
	leaf  *node
	since time.Time
	// granted is closed when the ticket runs, while it waits.
	granted chan struct{}
}

// Meter takes the time that tickets have run. It must not block, nor call the scheduler.
type Meter interface{ Worked(d time.Duration) }

// Ticket returns an idle ticket of a tenant, without a meter.
func (s *Scheduler) Ticket(p Path) *Ticket { return &Ticket{scheduler: s, path: p} }

// Another is a further ticket of the same tenant, without a meter.
func (t *Ticket) Another() *Ticket { return &Ticket{scheduler: t.scheduler, path: t.path} }

// For is a ticket of another tenant with the same scheduler, without a meter.
func (t *Ticket) For(p Path) *Ticket { return &Ticket{scheduler: t.scheduler, path: p} }

// Path is the tenant's.
func (t *Ticket) Path() Path { return t.path }

// Measure has a meter take the time that the ticket runs, also since it runs now; nil: none does. The time is the clock's, which is that of a processor
// as long as the process has as many processors as tickets run.
func (t *Ticket) Measure(m Meter) {
	if t.scheduler == nil {
		return
	}
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.meter = m
}

// Begin waits until the ticket runs, for a new piece of work. It reports false, and does not wait, where too many
// of its tenant do.
func (t *Ticket) Begin() bool {
	if t.scheduler == nil {
		return true
	}
	granted, ok := t.scheduler.enqueue(t, true)
	if granted != nil {
		<-granted
	}
	return ok
}

// Work waits until the ticket runs, to go on with work.
func (t *Ticket) Work() {
	if t.scheduler == nil {
		return
	}
	if granted, _ := t.scheduler.enqueue(t, false); granted != nil {
		<-granted
	}
}

// Reschedule lets tickets run that wait, and returns when this one runs again: at once where none waits. It goes into the midst of
// work that may last longer than a [Quantum].
func (t *Ticket) Reschedule() {
	if t.scheduler == nil {
		return
	}
	t.scheduler.yieldToWaiting(t)
	t.Work()
}

// Yield makes the ticket idle. It goes before every wait for a peer or another goroutine, and after the last piece of work.
func (t *Ticket) Yield() {
	if t.scheduler != nil {
		t.scheduler.yield(t)
	}
}
