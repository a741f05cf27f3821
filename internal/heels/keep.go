// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
)

const (
	// handshakesEnd is how long handshakes are waited for that a cgroup's listeners have begun, before nobody finishes them.
	handshakesEnd = 10 * time.Second
	// sweepEvery is how often entries of connections are held against sockets.
	sweepEvery = time.Minute
	// routesShare is the most that looking at routes takes of a processor, as one part of so many.
	routesShare = 20
)

// keeper looks after what changes under a running agent: interfaces that go and come, cgroups that an agent before has served, and entries of connections that
// nobody has taken away.
type keeper struct {
	a *Agent
	// events tells of interfaces.
	events     chan netlink.LinkUpdate
	stop, done chan struct{}
	// quiet ends the subscription.
	quiet chan struct{}
	// agent is the number of this one in the control entry.
	agent uint64
	begun time.Time
	swept time.Time
	// routesDue is when routes are looked at next.
	routesDue time.Time
}

// keep starts it, for the network namespace of the calling thread.
func (a *Agent) keep() (*keeper, error) {
	k := &keeper{a: a, events: make(chan netlink.LinkUpdate, 64), stop: make(chan struct{}), done: make(chan struct{}), quiet: make(chan struct{}), agent: kernel.Monotonic(), begun: time.Now()}
	if err := a.change(func(c *kernel.Control) { c.Agent = k.agent }); err != nil {
		return nil, err
	}
	if err := netlink.LinkSubscribe(k.events, k.quiet); err != nil {
		return nil, fmt.Errorf("watch interfaces: %w", err)
	}
	ready := make(chan error)
	go k.run(ready)
	if err := <-ready; err != nil {
		close(k.quiet)
		return nil, err
	}
	return k, nil
}

func (k *keeper) close() {
	close(k.stop)
	<-k.done
	close(k.quiet)
}

func (k *keeper) run(ready chan<- error) {
	defer close(k.done)
	// The thread is never given back: it ends with this function.
	runtime.LockOSThread()
	err := k.a.home.Enter()
	ready <- err
	if err != nil {
		return
	}
	ticker := time.NewTicker(pins.RefreshInterval)
	defer ticker.Stop()
	for {
		// What fails is tried again.
		_ = k.look()
		select {
		case <-k.stop:
			return
		case <-ticker.C:
		case _, ok := <-k.events:
			if !ok {
				k.events = nil
			}
		}
	}
}

// look does what is due.
func (k *keeper) look() error {
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	lock, err := pins.OpenLock(k.a.pin)
	if err != nil {
		return err
	}
	defer lock.Close()
	return lock.Try(func() error {
		if is, err := k.isLatest(); err != nil || !is {
			return err
		}
		return errors.Join(k.lookAtInterfaces(), k.lookAtOwnCgroup(), k.lookAtCgroups(), k.lookAtEntries(), k.lookAtRoutes())
	})
}

// isLatest says whether the pins are still this agent's: another one may have succeeded it, or have begun anew after somebody has detached.
func (k *keeper) isLatest() (bool, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(k.a.pin, kernel.MapControl), nil)
	if err != nil {
		return false, err
	}
	defer m.Close()
	var c kernel.Control
	err = m.Lookup(uint32(0), &c)
	return err == nil && c.Agent == k.agent, err
}

// lookAtInterfaces attaches to interfaces that were made again. Meanwhile nothing begins: what is sent by one without programs could not be finished.
func (k *keeper) lookAtInterfaces() error {
	missing := slices.DeleteFunc(pins.Attachments(k.a.config), func(at pins.Attachment) bool {
		return at.Device == "" || k.isInPlace(&at)
	})
	if len(missing) == 0 {
		return k.a.setIncomplete(false)
	}
	if err := k.a.setIncomplete(true); err != nil {
		return err
	}
	for _, at := range missing {
		if err := k.a.attacher().AttachOne(&at, k.a.cgroup); err != nil {
			return err
		}
	}
	return k.a.setIncomplete(false)
}

// isInPlace says whether a program is attached to the interface that has its name now.
func (k *keeper) isInPlace(at *pins.Attachment) bool {
	device, err := net.InterfaceByName(at.Device)
	return err == nil && pins.AttachedTo(k.a.pin, at.PinName()) == uint64(device.Index)
}

// setIncomplete says whether an interface has no programs.
func (k *Kernel) setIncomplete(is bool) error {
	c, err := k.control()
	if err != nil || c.Flags&kernel.FlagIncomplete != 0 == is {
		return err
	}
	return k.change(func(c *kernel.Control) { c.Flags ^= kernel.FlagIncomplete })
}

// lookAtOwnCgroup attaches to a cgroup that was made again, as systemd makes that of a service with each start. Listeners that came first are prepared, as any
// that are older than the agent.
func (k *keeper) lookAtOwnCgroup() error {
	c, err := k.a.control()
	if err != nil {
		return err
	}
	// While there is none nothing can begin.
	number, err := pins.CgroupNumber(k.a.cgroup)
	if err != nil || number == c.Cgroup {
		return nil //nolint:nilerr // A cgroup that is not there is awaited.
	}
	for _, at := range pins.Attachments(k.a.config) {
		if at.Device != "" {
			continue
		}
		if err := k.a.attacher().AttachOne(&at, k.a.cgroup); err != nil {
			return err
		}
	}
	if k.a.config.Server != nil {
		if err := k.a.nameCgroup(k.a.cgroup); err != nil {
			return err
		}
		return k.a.readyListeners()
	}
	return k.a.nameCgroup(k.a.cgroup)
}

// lookAtCgroups leaves those that an agent before has served, when nothing of theirs is left.
func (k *keeper) lookAtCgroups() error {
	if time.Since(k.begun) < handshakesEnd {
		return nil
	}
	return k.a.dropFinished()
}

// lookAtRoutes looks by which interfaces clients are reached. Where there are many routes that takes long, and is done less
// often.
func (k *keeper) lookAtRoutes() error {
	begun := time.Now()
	if begun.Before(k.routesDue) {
		return nil
	}
	err := k.a.learnRoutes(k.a.config)
	k.routesDue = begun.Add(routesShare * time.Since(begun))
	return err
}

// lookAtEntries holds entries of connections against sockets, now and then.
func (k *keeper) lookAtEntries() error {
	if time.Since(k.swept) < sweepEvery {
		return nil
	}
	k.swept = time.Now()
	return k.a.sweep()
}
