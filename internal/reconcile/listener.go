// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

// listener is a service address in the maps. Its number is never given to another
// address: connections made while it was served may still live.
type listener struct {
	number  uint32
	name    string
	address netip.AddrPort
	// live is the version that the listener points to, nil when it has gone.
	live *version
	// intercepted says that new connections to the address are.
	intercepted bool
}

// linkListeners writes all versions that are new and then switches to them, so that
// what can fail for want of room fails before anything is switched.
func (r *Reconciler) linkListeners(wanted []compile.Listener) error {
	next := make([]*version, len(wanted))
	for i := range wanted {
		l := &wanted[i]
		if known := r.listeners[maps.KeyOf(l.Address)]; known != nil && known.live.holds(&l.Table) {
			next[i] = known.live
			continue
		}
		v, err := r.newVersion(&l.Table)
		if err != nil {
			return fmt.Errorf("listener %q: %w", l.Name, err)
		}
		next[i] = v
	}
	for i := range wanted {
		if err := r.link(&wanted[i], next[i]); err != nil {
			return fmt.Errorf("listener %q: %w", wanted[i].Name, err)
		}
	}
	return nil
}

// link points a listener to a version and sees that its address is intercepted.
func (r *Reconciler) link(l *compile.Listener, v *version) error {
	known, err := r.listenerFor(l)
	if err != nil {
		return err
	}
	if known.live != v {
		if err := put(&r.stats.Listeners, r.cfg.Listeners, known.number, maps.Listener{Table: v.index.first}); err != nil {
			return err
		}
		r.unlinked.exchange(v, known.live)
		known.live = v
	}
	if known.intercepted {
		return nil
	}
	if err := put(&r.stats.VIPs, r.cfg.VIPs, maps.KeyOf(l.Address), known.number); err != nil {
		return err
	}
	known.intercepted = true
	return nil
}

// listenerFor returns the listener of an address, with the number it had before if it
// was served before.
func (r *Reconciler) listenerFor(l *compile.Listener) (*listener, error) {
	key := maps.KeyOf(l.Address)
	known := r.listeners[key]
	if known == nil {
		s, err := r.numbers.listeners.take(1)
		if err != nil {
			return nil, fmt.Errorf("%w; addresses that were served once count until the daemon restarts", err)
		}
		known = &listener{number: s.first, address: l.Address}
		r.listeners[key] = known
	}
	known.name = l.Name
	return known, nil
}

// unlinkListeners takes away the listeners that are not wanted: first their addresses,
// so that no connection comes anew, then their tables.
func (r *Reconciler) unlinkListeners(wanted []compile.Listener) error {
	keep := map[maps.ListenerKey]bool{}
	for i := range wanted {
		keep[maps.KeyOf(wanted[i].Address)] = true
	}
	for _, l := range r.listenersByNumber() {
		if keep[maps.KeyOf(l.address)] {
			continue
		}
		if err := r.unlink(l); err != nil {
			return fmt.Errorf("listener %q: %w", l.name, err)
		}
	}
	return nil
}

func (r *Reconciler) unlink(l *listener) error {
	if l.intercepted {
		if err := remove(&r.stats.VIPs, r.cfg.VIPs, maps.KeyOf(l.address)); err != nil {
			return err
		}
		l.intercepted = false
	}
	if l.live == nil {
		return nil
	}
	if err := put(&r.stats.Listeners, r.cfg.Listeners, l.number, maps.Listener{}); err != nil {
		return err
	}
	r.unlinked.exchange(nil, l.live)
	l.live = nil
	return nil
}

func (r *Reconciler) listenersByNumber() []*listener {
	all := make([]*listener, 0, len(r.listeners))
	for _, l := range r.listeners {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *listener) int { return cmp.Compare(a.number, b.number) })
	return all
}
