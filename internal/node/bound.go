// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// doors are the sockets of bound listeners. Connections of other hosts come in there, and those of local processes that are not
// intercepted.
type doors struct {
	n *Node
	// some: there are sockets.
	some atomic.Bool

	mu sync.Mutex
	// sockets by the address of the listener.
	sockets map[netip.AddrPort]*door
	// opened: connections are taken. closed: none are any more.
	opened, closed bool
	// own are the addresses of this host.
	own []netip.Addr
	// placed are listeners with these addresses, by those without. Needs n.updates.
	placed map[*model.Listener]*model.Listener
}

// door is the socket of one listener, or the reason why there is none.
type door struct {
	listener string
	to       anchor.BoundTo
	socket   *anchor.Bound
	// listens: connections are taken.
	listens bool
	failure error
}

func newDoors(n *Node) *doors {
	return &doors{n: n, sockets: map[netip.AddrPort]*door{}, own: ownAddresses()}
}

// place gives bound listeners the addresses of this host. It changes a copy.
func (d *doors) place(cfg *model.Config) *model.Config {
	if !slices.ContainsFunc(cfg.Listeners, func(l *model.Listener) bool { return l.Bound }) {
		return cfg
	}
	d.mu.Lock()
	own := d.own
	d.mu.Unlock()
	placed, known := *cfg, map[*model.Listener]*model.Listener{}
	placed.Listeners = slices.Clone(cfg.Listeners)
	for i, l := range placed.Listeners {
		if !l.Bound {
			continue
		}
		with := placedAt(l, own)
		if before := d.placed[l]; before != nil && slices.Equal(before.Own, with.Own) {
			with = before // the same listener, for those who compare
		}
		known[l], placed.Listeners[i] = with, with
	}
	d.placed = known
	return &placed
}

func placedAt(l *model.Listener, own []netip.Addr) *model.Listener {
	with := *l
	with.Own = nil
	for _, a := range own {
		if a.Is4() == l.Address.Addr().Is4() {
			with.Own = append(with.Own, netip.AddrPortFrom(a, l.Address.Port()))
		}
	}
	return &with
}

// follow binds what the configuration in force wants bound, and gives up the rest. The error says what could not be: it is tried again.
func (d *doors) follow(cfg *model.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sockets) == 0 && !slices.ContainsFunc(cfg.Listeners, func(l *model.Listener) bool { return l.Bound }) {
		return nil
	}
	wanted := map[netip.AddrPort]*door{}
	numbers := d.n.reconcil.ListenerNumbers()
	for _, l := range cfg.Listeners {
		if !l.Bound {
			continue
		}
		w := &door{listener: l.Name, to: anchor.BoundTo{Listener: numbers[l.Name], Plain: l.TCP != nil}}
		if !l.Unlimited {
			w.to.Admits = d.admits
		}
		wanted[l.Address] = w
	}
	for address, old := range d.sockets {
		if w := wanted[address]; w != nil {
			old.turnTo(w)
			continue
		}
		// It may take a moment, and nobody waits for it.
		d.n.goes(func() { d.giveUp(old) })
		delete(d.sockets, address)
	}
	for address, w := range wanted {
		if d.sockets[address] == nil {
			d.sockets[address] = w
		}
	}
	d.some.Store(len(d.sockets) > 0)
	return d.bindAll()
}

// turnTo makes it the door of another listener, or of the same one with other fields.
func (w *door) turnTo(next *door) {
	w.listener, w.to = next.listener, next.to
	if w.socket != nil {
		w.socket.Assign(w.to)
	}
}

// admits says whether one more connection is taken, beside so many.
func (d *doors) admits(open int) bool {
	limit := d.n.generation.Load().Config().MaxConnections
	return limit == 0 || uint64(open) < limit
}

// bindAll binds what is not bound. Needs d.mu.
func (d *doors) bindAll() error {
	if d.closed {
		return nil
	}
	var problems []error
	for _, address := range slices.SortedFunc(maps.Keys(d.sockets), netip.AddrPort.Compare) {
		w := d.sockets[address]
		before := w.failure
		w.failure = d.bind(address, w)
		if w.failure == nil {
			continue
		}
		err := fmt.Errorf("listener %q: %w; free the address, or change the listener", w.listener, w.failure)
		problems = append(problems, err)
		if before == nil {
			d.n.log.Error("binding a listener failed; will retry", "listener", w.listener, "err", w.failure)
		}
	}
	return errors.Join(problems...)
}

func (d *doors) bind(address netip.AddrPort, w *door) (err error) {
	if w.socket == nil {
		if w.socket, err = d.n.anchors.Bind(address, w.to); err != nil {
			return err
		}
	}
	if w.listens || !d.opened {
		return nil
	}
	if err := w.socket.Listen(); err != nil {
		d.giveUp(w)
		return err
	}
	w.listens = true
	d.n.log.Info("listening", "listener", w.listener, "address", address.String())
	return nil
}

// giveUp closes the socket of a door that nobody else uses.
func (d *doors) giveUp(w *door) {
	if w.socket == nil {
		return
	}
	if err := w.socket.Close(); err != nil {
		d.n.log.Warn("close the socket of a listener", "listener", w.listener, "err", err)
	}
	w.socket, w.listens = nil, false
}

// open begins to take connections. What cannot be is logged.
func (d *doors) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = true
	_ = d.bindAll()
}

// close takes no connections any more, but those that have begun, for whose handshakes it waits. Whoever has one of the sockets as well goes on with it.
func (d *doors) close() {
	d.mu.Lock()
	d.closed = true
	sockets := d.sockets
	d.sockets = map[netip.AddrPort]*door{}
	d.mu.Unlock()
	var all sync.WaitGroup
	for _, w := range sockets {
		all.Go(func() { d.giveUp(w) })
	}
	all.Wait()
}

// stateOf says "yes" of a listener whose socket takes connections, or why it does not.
func (d *doors) stateOf(address netip.AddrPort) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.sockets[address]
	switch {
	case w == nil:
		return "no"
	case w.failure != nil:
		return w.failure.Error()
	case !w.listens:
		return "not yet"
	}
	return "yes"
}

// doorPace is how often it is looked whether a socket can be bound now, and whether this host has other addresses.
const doorPace = time.Second

// any reports whether there is something to tend.
func (d *doors) any() bool { return d.some.Load() }

// tend tries again what could not be bound, and follows the addresses of this host.
func (d *doors) tend() {
	own := ownAddresses()
	d.mu.Lock()
	_ = d.bindAll()
	moved := !slices.Equal(own, d.own) && len(d.sockets) > 0
	d.own = own
	d.mu.Unlock()
	if !moved {
		return
	}
	d.n.log.Info("the addresses of this host have changed", "addresses", own)
	if err := d.n.source.Reactivate(); shutdown.IsRefusal(err) {
		d.n.log.Error("connections to other addresses of this host are not intercepted", "err", err)
	}
}

// ownAddresses are those of this host's interfaces. Those of a single link are left out: they mean something on that link only.
func ownAddresses() []netip.Addr {
	// Without any nobody is intercepted, and everybody comes in by the socket.
	found, _ := net.InterfaceAddrs()
	var out []netip.Addr
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, p.Addr().Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
