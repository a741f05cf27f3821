// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/views"
)

const (
	// linger is how long a view that a template has made stays without a workload: the last pod of a namespace may be replaced.
	linger = time.Minute
	// maxMade bounds the views that templates have made.
	maxMade = 1024
	// patience is how long the first pod that is to see a view waits for it, before its containers start.
	patience = 250 * time.Millisecond
	// longestRetry is the longest pause between two attempts to add one. The first is retryPace, and each is twice the one before.
	longestRetry = time.Minute
)

// made are the views that templates have made, and the numbers of all views. A view has its number from the first workload on that is to see it; its configuration
// follows. It is safe for concurrent use.
type made struct {
	// wake has an element when there may be a view to be added.
	wake chan struct{}

	mu     sync.Mutex
	byName map[string]*instance
	// numberOf has the numbers of views, names those of views by their numbers, also of views of the file that have gone. A number is never another view's:
	// connections may be left.
	numberOf map[string]uint32
	names    map[uint32]string
	last     uint32
}

// instance is a view that a template has made.
type instance struct {
	view views.View
	// there is closed when it is there. isAwaited: something waits, or has waited, for that.
	there     chan struct{}
	isAwaited bool
	// isThere: its configuration is active. isLeaving: it goes unless a workload comes that is to see it.
	isThere, isLeaving bool
	// unseen is since when no workload sees it; zero: one does, or it is not known.
	unseen time.Time
	// retryAt is when it may be added, pause how long it waits behind the next failure, why the last failure.
	retryAt time.Time
	pause   time.Duration
	why     string
}

func newInstance(v views.View) *instance { return &instance{view: v, there: make(chan struct{})} }

// come notes that a view is there.
func (m *made) come(v views.View) {
	if before := m.byName[v.Name]; before != nil && !before.isThere {
		close(before.there)
	}
	m.byName[v.Name] = &instance{view: v, isThere: true}
}

func newMade() *made {
	return &made{wake: make(chan struct{}, 1), byName: map[string]*instance{}, numberOf: map[string]uint32{}, names: map[uint32]string{}}
}

// assign has the views of a file have numbers. Templates have none.
func (m *made) assign(f *views.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range f.Views {
		if v := &f.Views[i]; !v.IsTemplate() {
			v.Number = m.numberLocked(v.Name)
		}
	}
}

func (m *made) numberLocked(name string) uint32 {
	if m.numberOf[name] == 0 {
		m.last++
		m.numberOf[name], m.names[m.last] = m.last, name
	}
	return m.numberOf[name]
}

// nameOf is the name of the view with a number; empty: there was no such view, or a template had made it, and it has gone.
func (m *made) nameOf(number uint32) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[number]
}

// list are the names of the views that there are, or are to be, sorted.
func (m *made) list() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *made) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byName) == 0
}

// number is that of a view which a workload is to see. What is not there is added soon. It does not wait.
func (m *made) number(v views.View) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byName[v.Name]
	switch {
	case one == nil:
		v.Number = m.numberLocked(v.Name)
		one = newInstance(v)
		m.byName[v.Name] = one
	case !one.view.HasSourcesOf(&v):
		v.Number = one.view.Number
		// What waits for the one before waits no longer than patience.
		one = newInstance(v)
		m.byName[v.Name] = one
	}
	one.isLeaving, one.unseen = false, time.Time{}
	if !one.isThere {
		m.wakeUp()
	}
	return one.view.Number
}

func (m *made) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// awaitable is closed when the view with a number is there; nil: it is, or it has been waited for before.
func (m *made) awaitable(number uint32) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byName[m.names[number]]
	if one == nil || one.isThere || one.isAwaited {
		return nil
	}
	one.isAwaited = true
	return one.there
}

// missing are those of a list of views that are not there from the sources that they say, with their numbers.
func (m *made) missing(list map[string]views.View) (out []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, v := range list {
		if one := m.byName[name]; one == nil || !one.isThere || !one.view.HasSourcesOf(&v) {
			v.Number = m.numberLocked(name)
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b views.View) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// due are those that are to be added now, by their names. There is room for so many that all together are at most maxMade.
func (m *made) due(now time.Time) (list []views.View, isFull bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := maxMade
	for _, one := range m.byName {
		if one.isThere {
			room--
		} else if !now.Before(one.retryAt) {
			list = append(list, one.view)
		}
	}
	slices.SortFunc(list, func(a, b views.View) int { return strings.Compare(a.Name, b.Name) })
	if len(list) > room {
		return list[:max(room, 0)], true
	}
	return list, false
}

// added notes that views are there which were due. One that is to have other sources meanwhile is not.
func (m *made) added(list []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		if one := m.byName[v.Name]; one != nil && one.view.HasSourcesOf(&v) {
			m.come(v)
		}
	}
}

// replaced notes that views are there of a file that comes into force.
func (m *made) replaced(list []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		m.come(v)
	}
}

// failed notes why a view could not be added, and reports whether that is another reason than the last.
func (m *made) failed(v views.View, why error, now time.Time) (isNews bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byName[v.Name]
	if one == nil {
		return false
	}
	one.pause = min(max(2*one.pause, retryPace), longestRetry)
	one.retryAt = now.Add(one.pause)
	isNews = one.why != why.Error()
	one.why = why.Error()
	return isNews
}

// mark marks those that no workload has seen for linger, and reports whether there are any. Connections keep one for departure.
func (m *made) mark(seen, inUse map[uint32]bool, now time.Time) (isSome bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.byName {
		switch {
		case seen[one.view.Number]:
			one.unseen, one.isLeaving = time.Time{}, false
			continue
		case one.unseen.IsZero():
			one.unseen = now
		}
		age := now.Sub(one.unseen)
		one.isLeaving = age >= departure || age >= linger && !inUse[one.view.Number]
		isSome = isSome || one.isLeaving
	}
	return isSome
}

// takeLeaving takes those out that leave still, and returns those of them that are there. seen was found out behind mark: who has come to see one before mark is
// among them, and who has come behind it has had it stay.
func (m *made) takeLeaving(seen map[uint32]bool) (there []*instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, one := range m.byName {
		if !one.isLeaving || seen[one.view.Number] {
			continue
		}
		delete(m.byName, name)
		delete(m.numberOf, name)
		delete(m.names, one.view.Number)
		if one.isThere {
			there = append(there, one)
		}
	}
	return there
}

// putBack takes in again what could not be removed, but for a view that has come anew: that goes in its place.
func (m *made) putBack(list []*instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range list {
		if name := one.view.Name; m.byName[name] == nil {
			m.byName[name], m.numberOf[name], m.names[one.view.Number] = one, one.view.Number, name
		}
	}
}

// allAreThere reports whether no view is to be added.
func (m *made) allAreThere() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.byName {
		if !one.isThere {
			return false
		}
	}
	return true
}
