// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/plural"
)

// FlowsError refuses to detach what live connections depend on.
type FlowsError struct{ Count int }

func (e *FlowsError) Error() string {
	return fmt.Sprintf("%s %s around the balancer and would break; drain, and wait until \"xlb heels conns\" shows none, or use --force",
		plural.Of(e.Count, "connection"), plural.Verb(e.Count, "goes", "go"))
}

// Detach takes programs and pins away, what begins connections first. While connections depend on them it changes nothing but returns a *FlowsError,
// unless it is forced.
func (k *Kernel) Detach(force bool) error {
	// Programs go one after the other: meanwhile no connection may begin that could not be finished.
	before, err := k.control()
	if err != nil {
		return err
	}
	if err := k.change(func(c *kernel.Control) { c.Flags |= flagOf(ClientRole) | flagOf(ServerRole) }); err != nil {
		return err
	}
	if !force {
		if err := k.letGo(); err != nil {
			return errors.Join(err, k.change(func(c *kernel.Control) { c.Flags = before.Flags }))
		}
	}
	lock, err := pins.OpenLock(k.pin)
	if err != nil {
		return err
	}
	defer lock.Close()
	return lock.Hold(k.takeOff)
}

// takeOff takes all programs off, those that begin connections first, and the pins away.
func (k *Kernel) takeOff() error {
	names, err := pins.LinkNames(k.pin)
	if err != nil {
		return err
	}
	for _, sockops := range []bool{true, false} {
		for _, name := range names {
			if strings.HasSuffix(name, "_sockops") == sockops {
				err = errors.Join(err, pins.Unlink(k.pin, name))
			}
		}
	}
	return errors.Join(err, os.RemoveAll(k.pin))
}

// letGo waits for what is under way, and is an error while connections depend on the programs, or somebody on what they have left.
func (k *Kernel) letGo() error {
	if err := k.awaitHandshakes(); err != nil {
		return err
	}
	if err := k.unused(); err != nil {
		return err
	}
	return k.notifyRemaining()
}

const (
	// handshakeWait is how long handshakes under way are waited for: a SYN-ACK that is lost comes again after one second, and after two more. Those of a flood never end.
	handshakeWait = 3500 * time.Millisecond
	handshakePoll = 20 * time.Millisecond
)

// awaitHandshakes waits for those that the server has begun: their connections cannot be seen before.
func (k *Kernel) awaitHandshakes() error {
	for end := time.Now().Add(handshakeWait); time.Now().Before(end); time.Sleep(handshakePoll) {
		halfOpen, err := iterate(k.iterators.HalfOpen, nil)
		if err != nil {
			return fmt.Errorf("count handshakes: %w", err)
		}
		if len(halfOpen) == 0 {
			return nil
		}
	}
	return nil
}

// unused is a *FlowsError while connections go around the balancer, or are about to.
func (k *Kernel) unused() error {
	conns, err := k.Connections()
	if err != nil {
		return err
	}
	live := 0
	for _, c := range conns {
		if c.State != Fallback {
			live++
		}
	}
	if live > 0 {
		return &FlowsError{live}
	}
	return nil
}

// dropFinished takes programs off that finish what an agent before has begun in another cgroup, when all is finished.
func (k *Kernel) dropFinished() error {
	names, err := pins.LinkNames(k.pin)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !pins.IsFinisher(name) })
	if len(names) == 0 {
		return nil
	}
	conns, err := k.Connections()
	if err != nil || slices.ContainsFunc(conns, func(c Connection) bool { return c.foreign }) {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, pins.Unlink(k.pin, name))
	}
	return err
}
