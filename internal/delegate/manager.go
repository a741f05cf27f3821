// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/delegate/process"
	"github.com/xlb-project/xlb/internal/delegate/twin"
)

// Limits bound what all processes of a delegate take together; 0: no bound.
type Limits = process.Limits

// Options say what a delegate is.
type Options struct {
	// Program is a path of Envoy, or a name without a slash, which is looked for in PATH.
	Program string
	Limits  Limits
	// Drain is how long connections to one that is replaced, or ends, may last.
	Drain  time.Duration
	Logger *slog.Logger
	// Spawn calls f in a goroutine of its own.
	Spawn func(f func())

	// pace is for tests; 0: that of the constant.
	pace time.Duration
}

// Manager runs a delegate. Its methods are safe for concurrent use.
type Manager struct {
	o            Options
	log          *slog.Logger
	program      string
	version      string
	confinement  *process.Confinement
	directory    *directory
	output       *output
	changed      chan struct{} // has room for one: desired is another
	closing      chan struct{}
	close        sync.Once
	ended        chan struct{} // closed when the loop has ended
	retiring     sync.WaitGroup
	shutdownErrs error // the loop's, until ended is closed

	mu sync.Mutex // guards what follows
	// desired is the last configuration that was applied; nil: there has been no Apply.
	desired *desired
	state   State
	why     string
	serving *instance // nil: no process serves
	starts  uint64
	ends    uint64
}

// desired is a configuration. The loop alone uses what is in it.
type desired struct {
	text []byte
	path string
	// made is its twin, or refused says why a delegate cannot be given it, once the loop has looked.
	made    *twin.Twin
	refused error
}

// twin reads the files that the configuration names, which may take seconds.
func (d *desired) twin() (*twin.Twin, error) {
	if d.made == nil && d.refused == nil {
		d.made, d.refused = twin.Make(d.text, d.path)
		d.text = nil
	}
	return d.made, d.refused
}

// New finds Envoy, and makes what it runs in. No delegate runs before Apply. The error says which of the program, its version, the user or the cgroup cannot be had.
func New(ctx context.Context, o Options) (*Manager, error) {
	if o.pace == 0 {
		o.pace = pace
	}
	path, err := process.Find(o.Program)
	if err != nil {
		return nil, err
	}
	name, err := process.Name()
	if err != nil {
		return nil, err
	}
	confinement, err := process.Confine(name, o.Limits)
	if err != nil {
		return nil, err
	}
	version, err := confinement.Version(ctx, path)
	if err != nil {
		return nil, errors.Join(err, confinement.Close())
	}
	dir, err := newDirectory(name, confinement.User())
	if err != nil {
		return nil, errors.Join(err, confinement.Close())
	}
	m := &Manager{
		o: o, log: o.Logger, program: path, version: version, confinement: confinement, directory: dir, output: newOutput(o.Logger),
		changed: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}), state: Starting,
	}
	o.Spawn(m.run)
	return m, nil
}

// Check says whether a delegate can be given a bootstrap. path names it, and says by its extension what it is written in.
func (m *Manager) Check(text []byte, path string) error {
	_, err := twin.Make(text, path)
	return err
}

// Apply has a delegate run with a bootstrap. It returns at once: Status shows the result.
func (m *Manager) Apply(text []byte, path string) {
	m.mu.Lock()
	m.desired = &desired{text: text, path: path}
	m.mu.Unlock()
	m.signal()
}

// signal has the loop look at the last configuration.
func (m *Manager) signal() {
	select {
	case m.changed <- struct{}{}:
	default: // The loop has not seen the former one yet, and will see this one.
	}
}

// Close ends the delegate when its connections have ended, or Options.Drain has passed, and removes its directory and cgroup.
func (m *Manager) Close() error {
	m.close.Do(func() { close(m.closing) })
	<-m.ended
	return m.shutdownErrs
}

// Status is what is to be seen now.
func (m *Manager) Status() Status {
	used, limit := m.confinement.Memory()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{
		State: m.state, Program: m.program, Version: m.version, User: m.confinement.User(), Starts: m.starts, Ends: m.ends, Why: m.why,
		Memory: used, MemoryLimit: limit, CPUs: m.o.Limits.CPUs, Dropped: m.output.dropped.Load(),
	}
	if i := m.serving; i != nil {
		s.PID, s.Since, s.Listeners, s.LeftOut = i.process.PID(), i.since, i.listeners(), i.twin.LeftOut
	}
	return s
}

// setState is seen from then on.
func (m *Manager) setState(state State, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.why = state, why
}

// refuse says why the last configuration is not what the delegate runs with.
func (m *Manager) refuse(state State, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = why
	if m.serving == nil {
		m.state = state
	}
}

// exchange has another process serve, or no process with nil, and returns the former one. The state that goes with it is seen at the same moment.
func (m *Manager) exchange(i *instance, state State) (former *instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	former, m.serving = m.serving, i
	m.state, m.why = state, ""
	return former
}

// latest is the configuration that the delegate is to have.
func (m *Manager) latest() *desired {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired
}

// same reports whether a process was started with what a twin says.
func same(a, b *twin.Twin) bool {
	if !bytes.Equal(a.Bootstrap, b.Bootstrap) || len(a.Files) != len(b.Files) {
		return false
	}
	for i := range a.Files {
		if a.Files[i].Name != b.Files[i].Name || !bytes.Equal(a.Files[i].Data, b.Files[i].Data) {
			return false
		}
	}
	return true
}
