// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
)

// Config is what Bound works with. All of it is needed, and safe for concurrent use.
type Config struct {
	Logger *slog.Logger
	// Bind opens the socket of a listener. It does not take connections yet.
	Bind func(address netip.AddrPort, to anchor.BoundTo) (*anchor.Bound, error)
	// Indices are those of the listeners in force in the kernel, by name.
	Indices func() map[model.ListenerName]uint32
	// MaxConnections bounds the connections of all listeners that are not exempt from it; 0: there is no bound.
	MaxConnections func() uint64
	// AddressesChanged puts the configuration in force once more, for other addresses of this host.
	AddressesChanged func(own []netip.Addr)
	// Spawn runs f in a goroutine that the end of the daemon waits for.
	Spawn func(f func())
}

// Bound are the sockets of bound listeners. Connections of other hosts come in there, and those of local processes that are not intercepted. Its methods
// are safe for concurrent use, but for AddOwnAddresses.
type Bound struct {
	cfg Config
	// some: there are sockets.
	some atomic.Bool

	mu sync.Mutex
	// sockets by the address of the listener.
	sockets map[netip.AddrPort]*boundListener
	// opened: connections are taken. closed: they are taken no more.
	opened, closed bool
	// own are the addresses of this host.
	own []netip.Addr
	// complete are listeners with these addresses, by those without. AddOwnAddresses alone uses it.
	complete map[*model.Listener]*model.Listener
}

// boundListener is the socket of one listener, or the reason why there is none.
type boundListener struct {
	listener string
	to       anchor.BoundTo
	socket   *anchor.Bound
	// listens: connections are taken.
	listens bool
	failure error
}

// NewBound returns no sockets. They take connections from Open on.
func NewBound(cfg Config) *Bound {
	return &Bound{cfg: cfg, sockets: map[netip.AddrPort]*boundListener{}, own: ownAddresses()}
}

// AddOwnAddresses gives bound listeners the addresses of this host. It changes a copy. The caller holds the lock of changes.
func (b *Bound) AddOwnAddresses(cfg *model.Config) *model.Config {
	if !slices.ContainsFunc(cfg.Listeners, func(l *model.Listener) bool { return l.Bound }) {
		return cfg
	}
	b.mu.Lock()
	own := b.own
	b.mu.Unlock()
	out, complete := *cfg, map[*model.Listener]*model.Listener{}
	out.Listeners = slices.Clone(cfg.Listeners)
	for i, l := range out.Listeners {
		if !l.Bound {
			continue
		}
		with := withAddresses(l, own)
		if before := b.complete[l]; before != nil && slices.Equal(before.Own, with.Own) {
			with = before // the same listener, for those who compare
		}
		complete[l], out.Listeners[i] = with, with
	}
	b.complete = complete
	return &out
}

func withAddresses(l *model.Listener, own []netip.Addr) *model.Listener {
	with := *l
	with.Own = nil
	for _, a := range own {
		if a.Is4() == l.Address.Addr().Is4() {
			with.Own = append(with.Own, netip.AddrPortFrom(a, l.Address.Port()))
		}
	}
	return &with
}

// Apply binds what the configuration in force wants bound, and gives up the rest. The error says what could not be; Tend will retry.
func (b *Bound) Apply(cfg *model.Config) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sockets) == 0 && !slices.ContainsFunc(cfg.Listeners, func(l *model.Listener) bool { return l.Bound }) {
		return nil
	}
	wanted := map[netip.AddrPort]*boundListener{}
	indices := b.cfg.Indices()
	for _, l := range cfg.Listeners {
		if !l.Bound {
			continue
		}
		w := &boundListener{listener: l.Name, to: anchor.BoundTo{Listener: indices[l.FullName()], TCP: l.TCP != nil}}
		if !l.Unlimited {
			w.to.Admits = b.Admits
		}
		wanted[l.Address] = w
	}
	for address, old := range b.sockets {
		if w := wanted[address]; w != nil {
			old.turnTo(w)
			continue
		}
		// It may take a moment; no caller waits for it.
		b.cfg.Spawn(func() { b.closeSocket(old) })
		delete(b.sockets, address)
	}
	for address, w := range wanted {
		if b.sockets[address] == nil {
			b.sockets[address] = w
		}
	}
	b.some.Store(len(b.sockets) > 0)
	return b.bindAll()
}

// turnTo makes it the socket of another listener, or of the same one with other fields.
func (w *boundListener) turnTo(next *boundListener) {
	w.listener, w.to = next.listener, next.to
	if w.socket != nil {
		w.socket.Assign(w.to)
	}
}

// Admits says whether one more connection is taken, beside so many.
func (b *Bound) Admits(open int) bool {
	limit := b.cfg.MaxConnections()
	return limit == 0 || uint64(open) < limit
}

// bindAll binds what is not bound. Needs b.mu.
func (b *Bound) bindAll() error {
	if b.closed {
		return nil
	}
	var problems []error
	for _, address := range slices.SortedFunc(maps.Keys(b.sockets), netip.AddrPort.Compare) {
		w := b.sockets[address]
		before := w.failure
		w.failure = b.bind(address, w)
		if w.failure == nil {
			continue
		}
		err := fmt.Errorf("listener %q: %w; free the address, or change the listener", w.listener, w.failure)
		problems = append(problems, err)
		if before == nil {
			b.cfg.Logger.Error("binding a listener failed; will retry", "listener", w.listener, "err", w.failure)
		}
	}
	return errors.Join(problems...)
}

func (b *Bound) bind(address netip.AddrPort, w *boundListener) (err error) {
	if w.socket == nil {
		if w.socket, err = b.cfg.Bind(address, w.to); err != nil {
			return err
		}
	}
	if w.listens || !b.opened {
		return nil
	}
	if err := w.socket.Listen(); err != nil {
		b.closeSocket(w)
		return err
	}
	w.listens = true
	b.cfg.Logger.Info("listening", "listener", w.listener, "address", address.String())
	return nil
}

// closeSocket closes the socket of a listener that has no other user.
func (b *Bound) closeSocket(w *boundListener) {
	if w.socket == nil {
		return
	}
	if err := w.socket.Close(); err != nil {
		b.cfg.Logger.Warn("close the socket of a listener", "listener", w.listener, "err", err)
	}
	w.socket, w.listens = nil, false
}

// Open begins to take connections. What cannot be is logged.
func (b *Bound) Open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = true
	_ = b.bindAll()
}

// Close takes no connections any more, but those that have begun, for whose handshakes it waits. Another process that has one of the sockets goes on with it.
func (b *Bound) Close() {
	b.mu.Lock()
	b.closed = true
	sockets := b.sockets
	b.sockets = map[netip.AddrPort]*boundListener{}
	b.mu.Unlock()
	var all sync.WaitGroup
	for _, w := range sockets {
		all.Go(func() { b.closeSocket(w) })
	}
	all.Wait()
}

// State says "yes" of a listener whose socket takes connections, or why it does not.
func (b *Bound) State(address netip.AddrPort) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.sockets[address]
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

// Pace is how often Tend is due: whether a socket can be bound now, and whether this host has other addresses.
const Pace = time.Second

// HasSockets reports whether there is something to tend. It does not wait.
func (b *Bound) HasSockets() bool { return b.some.Load() }

// Tend tries again what could not be bound, and follows the addresses of this host.
func (b *Bound) Tend() {
	own := ownAddresses()
	b.mu.Lock()
	_ = b.bindAll()
	moved := !slices.Equal(own, b.own) && len(b.sockets) > 0
	b.own = own
	b.mu.Unlock()
	if moved {
		b.cfg.AddressesChanged(own)
	}
}

// ownAddresses are those of this host's interfaces. Those of a single link are left out: they mean something on that link only.
func ownAddresses() []netip.Addr {
	// Without any, no connection is intercepted, and all come in by the socket.
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
