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
	// handshakesEnd is how long handshakes are waited for that a cgroup's listeners have begun, before no program finishes them.
	handshakesEnd = 10 * time.Second
	// sweepEvery is how often entries of connections are held against sockets.
	sweepEvery = time.Minute
	// routesShare is the most that looking at routes takes of a processor, as one part of so many.
	routesShare = 20
)

// entryRefresher looks after what changes under a running agent: interfaces that go and come, cgroups that an agent before has served, and entries of connections
// that outlived their sockets.
type entryRefresher struct {
	a *Agent
	// events tells of interfaces.
	events     chan netlink.LinkUpdate
	stop, done chan struct{}
	// quiet ends the subscription.
	quiet chan struct{}
	// agent is the number of this one in the control entry.
	agent   uint64
	started time.Time
	swept   time.Time
	// routesDue is when routes are looked at next.
	routesDue time.Time
}

// startRefresher starts it, for the network namespace of the calling thread.
func (a *Agent) startRefresher() (*entryRefresher, error) {
	r := &entryRefresher{a: a, events: make(chan netlink.LinkUpdate, 64), stop: make(chan struct{}), done: make(chan struct{}), quiet: make(chan struct{}), agent: kernel.Monotonic(), started: time.Now()}
	if err := a.change(func(c *kernel.Control) { c.Agent = r.agent }); err != nil {
		return nil, err
	}
	if err := netlink.LinkSubscribe(r.events, r.quiet); err != nil {
		return nil, fmt.Errorf("watch interfaces: %w", err)
	}
	ready := make(chan error)
	go r.run(ready)
	if err := <-ready; err != nil {
		close(r.quiet)
		return nil, err
	}
	return r, nil
}

func (r *entryRefresher) close() {
	close(r.stop)
	<-r.done
	close(r.quiet)
}

func (r *entryRefresher) run(ready chan<- error) {
	defer close(r.done)
	// The thread is never given back: it ends with this function.
	runtime.LockOSThread()
	err := r.a.home.Enter()
	ready <- err
	if err != nil {
		return
	}
	ticker := time.NewTicker(pins.RefreshInterval)
	defer ticker.Stop()
	for {
		// What fails is tried again.
		_ = r.look()
		select {
		case <-r.stop:
			return
		case <-ticker.C:
		case _, ok := <-r.events:
			if !ok {
				r.events = nil
			}
		}
	}
}

// look does what is due.
func (r *entryRefresher) look() error {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	lock, err := pins.OpenLock(r.a.pin)
	if err != nil {
		return err
	}
	defer lock.Close()
	return lock.Try(func() error {
		if is, err := r.isLatest(); err != nil || !is {
			return err
		}
		return errors.Join(r.lookAtInterfaces(), r.lookAtOwnCgroup(), r.lookAtCgroups(), r.lookAtEntries(), r.lookAtRoutes())
	})
}

// isLatest says whether the pins are still this agent's: another one may have succeeded it, or have started anew after a detach.
func (r *entryRefresher) isLatest() (bool, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(r.a.pin, kernel.MapControl), nil)
	if err != nil {
		return false, err
	}
	defer m.Close()
	var c kernel.Control
	err = m.Lookup(uint32(0), &c)
	return err == nil && c.Agent == r.agent, err
}

// lookAtInterfaces attaches to interfaces that were made again. Meanwhile nothing begins: what is sent by one without programs could not be finished.
func (r *entryRefresher) lookAtInterfaces() error {
	missing := slices.DeleteFunc(pins.Attachments(r.a.config), func(at pins.Attachment) bool {
		return at.Device == "" || r.isInPlace(&at)
	})
	if len(missing) == 0 {
		return r.a.setIncomplete(false)
	}
	if err := r.a.setIncomplete(true); err != nil {
		return err
	}
	for _, at := range missing {
		if err := r.a.attacher().AttachOne(&at, r.a.cgroup); err != nil {
			return err
		}
	}
	return r.a.setIncomplete(false)
}

// isInPlace says whether a program is attached to the interface that has its name now.
func (r *entryRefresher) isInPlace(at *pins.Attachment) bool {
	device, err := net.InterfaceByName(at.Device)
	return err == nil && pins.AttachedTo(r.a.pin, at.PinName()) == uint64(device.Index)
}

// lookAtOwnCgroup attaches to a cgroup that was made again, as systemd makes that of a service with each start. Listeners that came first are prepared, as any
// that are older than the agent.
func (r *entryRefresher) lookAtOwnCgroup() error {
	c, err := r.a.control()
	if err != nil {
		return err
	}
	// While there is none nothing can begin.
	number, err := pins.CgroupNumber(r.a.cgroup)
	if err != nil || number == c.Cgroup {
		return nil //nolint:nilerr // A cgroup that is not there is awaited.
	}
	for _, at := range pins.Attachments(r.a.config) {
		if at.Device != "" {
			continue
		}
		if err := r.a.attacher().AttachOne(&at, r.a.cgroup); err != nil {
			return err
		}
	}
	if r.a.config.Server != nil {
		if err := r.a.nameCgroup(r.a.cgroup); err != nil {
			return err
		}
		return r.a.readyListeners()
	}
	return r.a.nameCgroup(r.a.cgroup)
}

// lookAtCgroups leaves those that an agent before has served, when nothing of theirs is left.
func (r *entryRefresher) lookAtCgroups() error {
	if time.Since(r.started) < handshakesEnd {
		return nil
	}
	return r.a.dropFinished()
}

// lookAtRoutes looks by which interfaces clients are reached. Where there are many routes that takes long, and is done less
// often.
func (r *entryRefresher) lookAtRoutes() error {
	started := time.Now()
	if started.Before(r.routesDue) {
		return nil
	}
	err := r.a.learnRoutes(r.a.config)
	r.routesDue = started.Add(routesShare * time.Since(started))
	return err
}

// lookAtEntries holds entries of connections against sockets, now and then.
func (r *entryRefresher) lookAtEntries() error {
	if time.Since(r.swept) < sweepEvery {
		return nil
	}
	r.swept = time.Now()
	return r.a.sweep()
}
