// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/routes"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// listener is a service address in the maps. Its number is never given to another
// address: connections made while it was served may still live. Its entry in the map is: see assign.go.
type listener struct {
	// number is 0 while its connections have only been left alone, and when its entry is another listener's.
	number uint32
	name   model.ListenerName
	key    maps.ListenerKey
	// live is the version that the listener points to, nil when it has gone.
	live *routes.Version
	// published is what new connections find by addresses, of those that no other listener has been shown at since.
	published map[maps.ListenerKey]addressEntry
}

// addressEntry is what connections to an address find: the listener's number, or 0 where they are left alone. Where it is not certain, a write has failed, which may have
// changed something.
type addressEntry struct {
	number    uint32
	isCertain bool
}

// linkListeners writes all that is new and then switches to it, so that
// what can fail for want of room fails before anything is switched.
func (r *Reconciler) linkListeners(wanted []compile.Listener) error {
	moves := r.movesTo(wanted)
	defer func() {
		for _, m := range moves.all {
			m.close()
		}
	}()
	for _, m := range moves.all {
		if err := r.prepare(m); err != nil {
			return fmt.Errorf("%s: %w", m.first, err)
		}
	}
	if err := r.assignNumbers(wanted); err != nil {
		return err
	}
	for i := range wanted {
		if err := r.link(&wanted[i], moves.of[wanted[i].Key()]); err != nil {
			return fmt.Errorf("%s: %w", wanted[i].View.Listener(wanted[i].Name), err)
		}
	}
	return nil
}

// link makes a move, if there is one, and sees that the listener's address is intercepted.
func (r *Reconciler) link(l *compile.Listener, m *move) error {
	known := r.listenerFor(l)
	known.name = l.View.Listener(l.Name)
	if l.PassesBy {
		if err := r.show(known, interceptedBy(l), 0); err != nil {
			return err
		}
		return r.dropTable(known)
	}
	if m != nil {
		if err := r.moveTo(known, m); err != nil {
			return err
		}
	}
	return r.show(known, interceptedBy(l), known.number)
}

// show makes new connections to these addresses find a number.
func (r *Reconciler) show(l *listener, keys []maps.ListenerKey, number uint32) error {
	for _, key := range keys {
		want := addressEntry{number, true}
		if l.published[key] == want {
			continue
		}
		r.takeAddress(l, key)
		if err := writes.Put(&r.stats.VIPs, r.cfg.VIPs, key, number); err != nil {
			return err
		}
		l.published[key] = want
	}
	return nil
}

// takeAddress has a listener be the one that knows what connections to an address find: after a change that fails the one before would trust in what it had written.
func (r *Reconciler) takeAddress(l *listener, key maps.ListenerKey) {
	if before := r.shownAt[key]; before != nil && before != l {
		delete(before.published, key)
	}
	r.shownAt[key], l.published[key] = l, addressEntry{}
}

// interceptedBy are the addresses that make a connection the listener's.
func interceptedBy(l *compile.Listener) []maps.ListenerKey {
	if !l.Bound {
		return []maps.ListenerKey{l.Key()}
	}
	keys := make([]maps.ListenerKey, len(l.Own))
	for i, a := range l.Own {
		keys[i] = maps.KeyOf(a)
	}
	return keys
}

// listenerFor returns the listener of an address, with the number it had before if that is still its own.
func (r *Reconciler) listenerFor(l *compile.Listener) *listener {
	key := l.Key()
	known := r.listeners[key]
	if known == nil {
		known = &listener{key: key, name: l.View.Listener(l.Name), published: map[maps.ListenerKey]addressEntry{}}
		r.listeners[key] = known
	}
	return known
}

// unlinkListeners takes away the listeners that are not wanted: first their addresses,
// so that no connection comes anew, then their tables.
func (r *Reconciler) unlinkListeners(wanted []compile.Listener) error {
	keep := map[maps.ListenerKey][]maps.ListenerKey{}
	for i := range wanted {
		keep[wanted[i].Key()] = interceptedBy(&wanted[i])
	}
	for _, l := range r.listenersByNumber() {
		keys, kept := keep[l.key]
		err := r.passBy(l, keys)
		if err == nil && !kept {
			err = r.dropTable(l)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	r.freeNumbers(wanted)
	return nil
}

// passBy ends the interception of connections to all addresses of a listener but these.
func (r *Reconciler) passBy(l *listener, but []maps.ListenerKey) error {
	for key := range l.published {
		if slices.Contains(but, key) {
			continue
		}
		l.published[key] = addressEntry{}
		if err := writes.Remove(&r.stats.VIPs, r.cfg.VIPs, key); err != nil {
			return err
		}
		delete(l.published, key)
		delete(r.shownAt, key)
	}
	return nil
}

// dropTables takes all tables away.
func (r *Reconciler) dropTables() error {
	for _, l := range r.listenersByNumber() {
		if err := r.dropTable(l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// dropTable takes a listener's table away, of which connections may be left.
func (r *Reconciler) dropTable(l *listener) error {
	if l.live == nil {
		return nil
	}
	if err := r.point(l, maps.Listener{}); err != nil {
		return err
	}
	r.routes.ReplaceVersion(nil, l.live)
	l.live = nil
	return nil
}

// point writes the entry of a listener, by one store.
func (r *Reconciler) point(l *listener, to maps.Listener) error {
	return writes.Put(&r.stats.Listeners, r.cfg.Listeners, r.cfg.Sizes.ListenerIndex(l.number), to)
}

func (r *Reconciler) listenersByNumber() []*listener {
	all := make([]*listener, 0, len(r.listeners))
	for _, l := range r.listeners {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *listener) int { return cmp.Compare(a.number, b.number) })
	return all
}
