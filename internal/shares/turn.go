// SPDX-License-Identifier: Apache-2.0

package shares

import "time"

// state of a Turn.
type state uint8

const (
	resting state = iota
	waiting
	holding
)

// Turn is the place of one who works for a tenant, as one connection that is served. Several goroutines
// may share it: what one of them gives up another one takes again when it works. The zero Turn is of no
// desk, and nothing waits there. It must not be copied.
type Turn struct {
	desk *Desk
	path Path

	// What follows is guarded by the desk's mu.
	state state
	// leaf is that of path, unless the turn rests; since is when it was given.
	leaf  *node
	since time.Time
	// granted is closed when the turn comes, while it is waited for.
	granted chan struct{}
}

// Turn returns a place for somebody who works for a tenant.
func (d *Desk) Turn(p Path) *Turn { return &Turn{desk: d, path: p} }

// Another is a further place for work of the same tenant.
func (t *Turn) Another() *Turn { return &Turn{desk: t.desk, path: t.path} }

// For is a place at the same desk for work of another tenant.
func (t *Turn) For(p Path) *Turn { return &Turn{desk: t.desk, path: p} }

// Path is the tenant's.
func (t *Turn) Path() Path { return t.path }

// Begin waits for the turn of a new piece of work. It reports false, and does not wait, where too many
// of its tenant do.
func (t *Turn) Begin() bool {
	if t.desk == nil {
		return true
	}
	granted, ok := t.desk.enqueue(t, true)
	if granted != nil {
		<-granted
	}
	return ok
}

// Work waits for the turn to go on.
func (t *Turn) Work() {
	if t.desk == nil {
		return
	}
	if granted, _ := t.desk.enqueue(t, false); granted != nil {
		<-granted
	}
}

// Yield lets others work that wait, and goes on when it is the turn's time again: at once where nobody waits. It goes into the midst of
// work that may last longer than a [Quantum].
func (t *Turn) Yield() {
	if t.desk == nil {
		return
	}
	t.desk.yield(t)
	t.Work()
}

// Rest gives the turn up. It goes before every wait for somebody else, and after the last piece of work.
func (t *Turn) Rest() {
	if t.desk != nil {
		t.desk.rest(t)
	}
}
