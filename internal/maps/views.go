// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"sync"
)

// ViewAny is the view of keys under which network namespaces are found out that have no view, and connect to what some view has.
const ViewAny = uint32(abiViewsVIEW_ANY)

// viewsOfAddresses are the views other than 0 that intercept connections to an address, by its key of ViewAny. That key is in the kernel's maps while there
// is one: what it leads to does not matter, as long as it is not 0.
type viewsOfAddresses struct {
	mu sync.Mutex
	// of has no empty sets. guarded by mu
	of map[ListenerKey]map[uint32]struct{}
}

// setInView is set for a view other than 0. While the address is found in the view it is found under ViewAny.
func (t *vips) setInView(k ListenerKey, number uint32) error {
	t.views.mu.Lock()
	defer t.views.mu.Unlock()
	if number == 0 {
		if err := t.set(k, 0); err != nil {
			return err
		}
		return t.leaveAny(k)
	}
	some := underAny(k)
	if t.views.of[some] == nil {
		if err := t.set(some, number); err != nil {
			return err
		}
	}
	if err := t.set(k, number); err != nil {
		return errors.Join(err, t.trimAny(some))
	}
	if t.views.of[some] == nil {
		t.views.of[some] = map[uint32]struct{}{}
	}
	t.views.of[some][k.View] = struct{}{}
	return nil
}

// removeFromView is remove for a view other than 0.
func (t *vips) removeFromView(k ListenerKey) error {
	t.views.mu.Lock()
	defer t.views.mu.Unlock()
	if err := t.remove(k); err != nil {
		return err
	}
	return t.leaveAny(k)
}

// leaveAny notes that a view intercepts connections to an address no more. The caller holds views.mu.
func (t *vips) leaveAny(k ListenerKey) error {
	some := underAny(k)
	delete(t.views.of[some], k.View)
	if len(t.views.of[some]) == 0 {
		delete(t.views.of, some)
	}
	return t.trimAny(some)
}

// trimAny takes a key of ViewAny away that no view needs. The caller holds views.mu.
func (t *vips) trimAny(some ListenerKey) error {
	if t.views.of[some] != nil {
		return nil
	}
	return t.remove(some)
}

func underAny(k ListenerKey) ListenerKey {
	k.View = ViewAny
	return k
}
