// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/routes"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// Agent is a running HEELS: programs attached by a configuration.
type Agent struct {
	*Kernel
	config *settings.Config
	// cgroup is what programs are attached to.
	cgroup string
	// notifier is nil while no VIP is, or has been, in confirm mode.
	notifier *endNotifier
	// refresher looks after what changes under a running agent.
	refresher *entryRefresher
	// mu guards config and what is attached by it.
	mu sync.Mutex
}

// Start puts a configuration in force, for the network namespace of the calling thread. An agent before it, with the same pins, is succeeded: its
// connections go on, and none is lost in between. Those of another network namespace are refused. Cgroup is what to attach to when the configuration does not say. After an error nothing is left, unless an
// agent before it has left something.
func Start(c *settings.Config, pin, cgroup string) (*Agent, error) {
	lock, err := pins.LockDir(pin)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	before, err := pins.Names(pin)
	if err != nil {
		return nil, err
	}
	a, err := start(c, pin, cgroup)
	if err != nil && len(before) == 0 {
		err = errors.Join(err, pins.RemoveAll(pin))
	}
	return a, err
}

func start(c *settings.Config, pin, cgroup string) (*Agent, error) {
	if c.Cgroup != "" {
		cgroup = c.Cgroup
	}
	if c.Client != nil {
		if err := routes.CheckBackends(c.Client); err != nil {
			return nil, err
		}
	}
	k, err := load(pin, &c.Option)
	if err != nil {
		return nil, err
	}
	a := &Agent{Kernel: k, config: c, cgroup: cgroup}
	err = k.checkNamespace()
	if err == nil {
		err = a.ensureNotifier(c)
	}
	if err == nil {
		err = k.apply(c)
	}
	if err == nil {
		err = k.attacher().Attach(c, cgroup)
	}
	if err == nil {
		err = k.nameCgroup(cgroup)
	}
	if err == nil && c.Server != nil {
		err = k.readyListeners()
	}
	if err == nil {
		err = k.setIncomplete(false)
	}
	if err == nil {
		a.refresher, err = a.startRefresher()
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// ensureNotifier starts the notifier of ends, if a VIP needs one, before connections begin that depend on it. For the network namespace of the calling thread.
func (a *Agent) ensureNotifier(c *settings.Config) (err error) {
	if a.notifier != nil || c.Server == nil {
		return nil
	}
	was, err := a.control()
	if err != nil {
		return err
	}
	if c.Confirms() || was.Flags&kernel.FlagServerConfirms != 0 {
		a.notifier, err = a.startNotifier()
	}
	return err
}

// Close ends the agent. What is pinned stays in force.
func (a *Agent) Close() {
	if a.refresher != nil {
		a.refresher.close()
	}
	if a.notifier != nil {
		a.notifier.close()
	}
	a.Kernel.Close()
}

// Reload puts another configuration in force. Roles, interfaces, cgroup and option are fixed at Start: a change of those is refused, and nothing
// of the configuration is used. An agent that another one has succeeded is refused with a *pins.Error: what is in force is that one's. It waits for whoever has the pin
// directory's lock.
func (a *Agent) Reload(c *settings.Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	lock, err := pins.OpenLock(a.pin)
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	defer lock.Close()
	return lock.Hold(func() error {
		is, err := a.refresher.isLatest()
		if err != nil {
			return fmt.Errorf("reload: %w", &pins.Error{Path: a.pin, Err: err})
		}
		if !is {
			return &pins.Error{Path: a.pin, Err: errors.New("another agent was started over it, and has what is in force; reload that one, and end this one")}
		}
		return a.reload(c)
	})
}

// reload is Reload with the lock held.
func (a *Agent) reload(c *settings.Config) error {
	was := a.config
	fixed := []struct {
		field    string
		old, new any
	}{
		{"cgroup", was.Cgroup, c.Cgroup},
		{"interfaces", was.Interfaces, c.Interfaces},
		{"option.kind", was.Option.Kind, c.Option.Kind},
		{"option.exid", was.Option.ExID, c.Option.ExID},
		{"client", was.Client == nil, c.Client == nil},
		{"server", was.Server == nil, c.Server == nil},
	}
	for _, f := range fixed {
		if !reflect.DeepEqual(f.old, f.new) {
			return &settings.FieldError{Path: f.field, Reason: "needs a restart, which connections survive"}
		}
	}
	if c.Client != nil {
		if err := routes.CheckBackends(c.Client); err != nil {
			return err
		}
	}
	// A first VIP in confirm mode needs what its connections depend on; what a last one leaves stays attached.
	if c.Confirms() && !was.Confirms() {
		if err := a.ensureNotifier(c); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
		if err := a.attacher().Attach(c, a.cgroup); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
	}
	if err := a.apply(c); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	a.config = c
	if c.Server == nil {
		return nil
	}
	return a.readyListeners()
}
