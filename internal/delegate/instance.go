// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/delegate/process"
	"github.com/xlb-project/xlb/internal/delegate/twin"
)

const (
	// readyWithin is how long a process may take to be ready. Envoy waits for names to be resolved, and 15 s for each resource by default.
	readyWithin = time.Minute
	// askPace is how often the daemon queries it meanwhile, and one that drains for its connections.
	askPace = 100 * time.Millisecond
	// quitWithin is how long it may take to end by itself.
	quitWithin = 5 * time.Second
)

// instance is one process of the delegate, with a configuration that does not change.
type instance struct {
	of      *desired
	twin    *twin.Twin
	path    string // its working directory
	process *process.Process
	admin   *adminClient
	output  *words
	since   time.Time
	// reason is why the daemon has killed it.
	reason atomic.Pointer[string]
}

// refusedError says that Envoy has ended before it was ready, by its own decision.
type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }

// errAbandoned says that something came up that matters more than whether a process becomes ready.
var errAbandoned = errors.New("another configuration came, or the end")

// startInstance starts a process in a directory of its own.
func (m *Manager) startInstance(d *desired, t *twin.Twin) (*instance, error) {
	path, err := m.directory.write(t)
	if err != nil {
		return nil, err
	}
	i := &instance{of: d, twin: t, path: path, admin: newAdminClient(filepath.Join(path, twin.Admin), m.confinement.User()), output: newWords(m.output)}
	i.process, err = m.confinement.Start(process.Command{Path: m.program, Args: arguments(m.o.Limits), Dir: path, Output: i.output.line})
	if err != nil {
		return nil, errors.Join(err, removeTree(path))
	}
	m.mu.Lock()
	m.starts++
	m.mu.Unlock()
	return i, nil
}

// arguments are Envoy's. It has no more workers than it may use processors. Each message is one line.
func arguments(l Limits) []string {
	args := []string{"-c", twin.BootstrapFile, "--disable-hot-restart", "--log-level", "warning", "--log-format", logFormat, "--log-format-escaped"}
	if l.CPUs > 0 {
		args = append(args, "--concurrency", fmt.Sprint(workers(l.CPUs)))
	}
	return args
}

// workers are as many as make use of so many processors.
func workers(cpus float64) int { return max(1, int(cpus+0.999)) }

// awaitReady waits until a process is ready. The error is a *refusedError where Envoy has refused its configuration, and errAbandoned where the process was ended
// for another one. With each error the process has ended.
func (m *Manager) awaitReady(i *instance) error {
	ask := time.NewTicker(askPace)
	defer ask.Stop()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	for {
		select {
		case <-i.process.Done():
			return i.endedEarly()
		case <-m.closing:
			i.end()
			return errAbandoned
		case <-m.changed:
			if m.latest() == i.of {
				continue // the loop had seen it before it was notified
			}
			m.signal() // for the loop
			i.end()
			return errAbandoned
		case <-late.C:
			i.end()
			return fmt.Errorf("not ready after %s", readyWithin)
		case <-ask.C:
			if i.ready() == nil {
				return nil
			}
		}
	}
}

// endedEarly is why a process has ended before it was ready.
func (i *instance) endedEarly() error {
	// Else a signal has ended it, or for want of memory the kernel.
	if err := i.process.Err(); err == nil || strings.HasPrefix(err.Error(), "exit status ") {
		return &refusedError{i.howEnded()}
	}
	return errors.New(i.howEnded())
}

// howEnded is why it has ended, with its own words.
func (i *instance) howEnded() string {
	how := "ended"
	if why := i.reason.Load(); why != nil {
		how = *why
	} else if err := i.process.Err(); err != nil {
		how = err.Error()
	}
	if last := i.output.last(); last != "" {
		return last + " (" + how + ")"
	}
	return how
}

// killed ends it at once, for a reason.
func (i *instance) killed(why string) {
	i.reason.Store(&why)
	i.process.Kill()
}

// end ends it at once.
func (i *instance) end() {
	i.process.Kill()
	<-i.process.Done()
}

// ready says why it is not ready.
func (i *instance) ready() error { return i.admin.ready() }

// drain ends it when it has no connections, or at the end of that time.
func (i *instance) drain(within time.Duration) {
	late := time.NewTimer(within)
	defer late.Stop()
	ask := time.NewTicker(askPace)
	defer ask.Stop()
	for i.admin.busy() {
		select {
		case <-i.process.Done():
			return
		case <-late.C:
			i.quit()
			return
		case <-ask.C:
		}
	}
	i.quit()
}

// quit has it end by itself, or ends it.
func (i *instance) quit() {
	if i.admin.quit() == nil {
		late := time.NewTimer(quitWithin)
		defer late.Stop()
		select {
		case <-i.process.Done():
			return
		case <-late.C:
		}
	}
	i.end()
}

// listeners are where they can be reached.
func (i *instance) listeners() []Listener {
	all := make([]Listener, len(i.twin.Listeners))
	for n, l := range i.twin.Listeners {
		all[n] = Listener{Name: l.Name, Socket: filepath.Join(i.path, l.Socket)}
	}
	return all
}

// remove removes the directory of a process that has ended.
func (i *instance) remove(log *slog.Logger) {
	if err := removeTree(i.path); err != nil {
		log.Warn("a directory of the delegate could not be removed", "err", err)
	}
}
