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
	// intercepted are the addresses to which new connections are: its own one, or those of this host.
	intercepted map[maps.ListenerKey]bool
}

// linkListeners writes all that is new and then switches to it, so that
// what can fail for want of room fails before anything is switched.
func (r *Reconciler) linkListeners(wanted []compile.Listener) error {
	drafts := make([]*draft, len(wanted))
	defer func() {
		for _, d := range drafts {
			if d != nil {
				d.close()
			}
		}
	}()
	for i := range wanted {
		l := &wanted[i]
		known := r.listeners[maps.KeyOf(l.Address)]
		if known != nil && known.live.holds(&l.Table) {
			continue
		}
		var live *version
		if known != nil {
			live = known.live
		}
		d, err := r.newDraft(maps.KeyOf(l.Address), live, &l.Table)
		if err == nil {
			drafts[i], err = d, d.prepare()
		}
		if err != nil {
			return fmt.Errorf("listener %q: %w", l.Name, err)
		}
	}
	for i := range wanted {
		if err := r.link(&wanted[i], drafts[i]); err != nil {
			return fmt.Errorf("listener %q: %w", wanted[i].Name, err)
		}
	}
	return nil
}

// link puts a draft in force, if there is one, and sees that the listener's address is intercepted.
func (r *Reconciler) link(l *compile.Listener, d *draft) error {
	known, err := r.listenerFor(l)
	if err != nil {
		return err
	}
	switch {
	case d == nil:
	case d.next == known.live:
		if err := d.change(); err != nil {
			return err
		}
	default:
		if err := put(&r.stats.Listeners, r.cfg.Listeners, known.number, maps.Listener{Table: d.next.index.first}); err != nil {
			return err
		}
		r.unlinked.exchange(d.next, known.live)
		known.live = d.next
	}
	for _, key := range interceptedBy(l) {
		if known.intercepted[key] {
			continue
		}
		if err := put(&r.stats.VIPs, r.cfg.VIPs, key, known.number); err != nil {
			return err
		}
		known.intercepted[key] = true
	}
	return nil
}

// interceptedBy are the addresses that make a connection the listener's.
func interceptedBy(l *compile.Listener) []maps.ListenerKey {
	if !l.Bound {
		return []maps.ListenerKey{maps.KeyOf(l.Address)}
	}
	keys := make([]maps.ListenerKey, len(l.Own))
	for i, a := range l.Own {
		keys[i] = maps.KeyOf(a)
	}
	return keys
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
		known = &listener{number: s.first, address: l.Address, intercepted: map[maps.ListenerKey]bool{}}
		r.listeners[key] = known
	}
	known.name = l.Name
	return known, nil
}

// unlinkListeners takes away the listeners that are not wanted: first their addresses,
// so that no connection comes anew, then their tables.
func (r *Reconciler) unlinkListeners(wanted []compile.Listener) error {
	keep := map[maps.ListenerKey][]maps.ListenerKey{}
	for i := range wanted {
		keep[maps.KeyOf(wanted[i].Address)] = interceptedBy(&wanted[i])
	}
	for _, l := range r.listenersByNumber() {
		intercepted, kept := keep[maps.KeyOf(l.address)]
		err := r.passBy(l, intercepted)
		if err == nil && !kept {
			err = r.unlink(l)
		}
		if err != nil {
			return fmt.Errorf("listener %q: %w", l.name, err)
		}
	}
	return nil
}

// passBy ends the interception of connections to all addresses of a listener but these.
func (r *Reconciler) passBy(l *listener, but []maps.ListenerKey) error {
	for key := range l.intercepted {
		if slices.Contains(but, key) {
			continue
		}
		number, ok, err := r.cfg.VIPs.Lookup(key)
		if err != nil {
			return err
		}
		// Another listener may have got the address meanwhile.
		if ok && number == l.number {
			if err := remove(&r.stats.VIPs, r.cfg.VIPs, key); err != nil {
				return err
			}
		}
		delete(l.intercepted, key)
	}
	return nil
}

func (r *Reconciler) unlink(l *listener) error {
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
