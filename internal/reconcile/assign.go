// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

// The low bits of a listener's number are the index of its entry in the map. When no program finds the listener any more its entry may get another listener's,
// under another number: connections that have the old one find that their listener has gone, whatever listener has the entry.

// checkNumbers returns why there are no numbers for all listeners that have none: to find that out when some have been switched is too late.
func (r *Reconciler) checkNumbers(wanted []compile.Listener) error {
	r.freeNumbers(wanted) // those of an attempt that failed
	fresh := uint64(0)
	for i := range wanted {
		if !wanted[i].PassesBy && !r.holdsNumber(r.listeners[wanted[i].Key()]) {
			fresh++
		}
	}
	if left := r.indices.listeners.Left(); fresh > left {
		return fmt.Errorf("map listeners is full: there are %d new addresses, and room for %d; configure fewer, or first take away the ones that are to go: addresses, also of views, have their room until "+
			"a configuration without them is in force", fresh, left)
	}
	return nil
}

// holdsNumber reports whether no other listener can get the number's entry.
func (r *Reconciler) holdsNumber(l *listener) bool {
	return l != nil && l.number != 0 && !r.indices.listeners.IsFree(l.number)
}

// assignNumbers sees that all listeners with tables have numbers. Those that come back are the first: they get the ones that they had, unless others have their entries.
func (r *Reconciler) assignNumbers(wanted []compile.Listener) error {
	for i := range wanted {
		if known := r.listeners[wanted[i].Key()]; known != nil && !wanted[i].PassesBy {
			r.indices.listeners.Retake(known.number)
		}
	}
	for i := range wanted {
		if wanted[i].PassesBy {
			continue
		}
		known := r.listenerFor(&wanted[i])
		if known.number != 0 {
			continue
		}
		number, ok := r.indices.listeners.Take()
		if !ok {
			return fmt.Errorf("%s: map listeners is full; configure fewer", known.name)
		}
		r.assign(known, number)
	}
	return nil
}

// assign has a listener take the place of the one that had the number's entry before.
func (r *Reconciler) assign(l *listener, number uint32) {
	index := r.cfg.Sizes.ListenerIndex(number)
	if before := r.byIndex[index]; before != nil {
		before.number = 0
		r.forget(before)
	}
	l.number, r.byIndex[index] = number, l
}

// forget drops a listener of which nothing is left.
func (r *Reconciler) forget(l *listener) {
	if l.number == 0 && len(l.published) == 0 {
		delete(r.listeners, l.key)
	}
}

// freeNumbers lets other listeners get the entries of those that no program finds any more, the one that has been so the longest first. Those that connections
// may have been led to stay known by their numbers meanwhile.
func (r *Reconciler) freeNumbers(wanted []compile.Listener) {
	served := map[maps.ListenerKey]bool{}
	for i := range wanted {
		served[wanted[i].Key()] = !wanted[i].PassesBy
	}
	for _, l := range r.listenersByNumber() {
		if served[l.key] || l.isFound() {
			continue
		}
		if r.holdsNumber(l) {
			r.indices.listeners.Free(l.number)
		}
		r.forget(l)
	}
}

// isFound reports whether programs find a listener's table, or its number at an address.
func (l *listener) isFound() bool {
	if l.live != nil {
		return true
	}
	for _, at := range l.published {
		if at.number != 0 || !at.isCertain {
			return true
		}
	}
	return false
}
