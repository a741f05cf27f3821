// SPDX-License-Identifier: Apache-2.0

package viewctl

import (
	"maps"
	"slices"
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
	// has are the names of those that have a configuration, also of some that are to have another one, or are to go. adding are those that are being added.
	has, adding map[string]bool
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
	// retryAt is when it may be added, pause how long it waited behind the last failure, why that failure.
	retryAt time.Time
	pause   time.Duration
	why     error
}

func newInstance(v views.View) *instance { return &instance{view: v, there: make(chan struct{})} }

// come notes that a view is there.
func (m *made) come(v views.View) {
	if before := m.byName[v.Name]; before != nil && !before.isThere {
		close(before.there)
	}
	m.byName[v.Name] = &instance{view: v, isThere: true}
	m.has[v.Name] = true
}

func newMade() *made {
	return &made{wake: make(chan struct{}, 1), byName: map[string]*instance{}, has: map[string]bool{}, adding: map[string]bool{}, numberOf: map[string]uint32{}, names: map[uint32]string{}}
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

// isEmpty reports whether there is no such view, nor a configuration of one.
func (m *made) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byName) == 0 && len(m.has) == 0
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

// missing are those of a list of views that are not there from the sources that they say, with their numbers, as far as there is room. It leaves out those that are
// being added, and those that could not be: these come later, and keep no file from being in force.
func (m *made) missing(list map[string]views.View) (out []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := m.roomLocked()
	for _, name := range slices.Sorted(maps.Keys(list)) {
		v := list[name]
		switch one := m.byName[name]; {
		case m.adding[name], one != nil && one.view.HasSourcesOf(&v) && (one.isThere || one.why != nil):
			continue
		case m.has[name]:
		case room == 0:
			continue
		default:
			room--
		}
		v.Number = m.numberLocked(name)
		out = append(out, v)
	}
	return out
}

// freeNumbers frees the numbers of those views of a list that were missing, and are still: a file that is refused is retried, for the workloads that
// there are each time. No other view gets them.
func (m *made) freeNumbers(list []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		if m.byName[v.Name] == nil && !m.adding[v.Name] {
			delete(m.numberOf, v.Name)
			delete(m.names, v.Number)
		}
	}
}

// roomLocked is how many may come beside those that have a configuration, or are being added.
func (m *made) roomLocked() int {
	taken := len(m.has)
	for name := range m.adding {
		if !m.has[name] {
			taken++
		}
	}
	return max(maxMade-taken, 0)
}

// due are those that are to be added now, by their names, as far as there is room. They are being added from now on, until added or failed has them. It leaves out
// what the file in force does not make: an attempt that ended with the file before leaves views behind that no workload may come to see, and from its sources they
// would come, and serve a workload that returns.
func (m *made) due(now time.Time, f *views.File) (list []views.View, isFull bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := m.roomLocked()
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		one := m.byName[name]
		switch {
		case one.isThere, m.adding[name], now.Before(one.retryAt), !f.Makes(&one.view):
			continue
		case m.has[name]:
		case room == 0:
			isFull = true
			continue
		default:
			room--
		}
		m.adding[name] = true
		list = append(list, one.view)
	}
	return list, isFull
}

// added notes that views are there which were due. One that is to have other sources meanwhile is not.
func (m *made) added(list []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		delete(m.adding, v.Name)
		m.has[v.Name] = true
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

// failed notes why views could not be added which were due, and returns those for which that is another reason than the last.
func (m *made) failed(list []views.View, why error, now time.Time) (news []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		delete(m.adding, v.Name)
		one := m.byName[v.Name]
		if one == nil || !one.view.HasSourcesOf(&v) {
			continue
		}
		one.pause = min(max(2*one.pause, retryPace), longestRetry)
		one.retryAt = now.Add(one.pause)
		if one.why == nil || one.why.Error() != why.Error() {
			news = append(news, v.Name)
		}
		one.why = why
	}
	return news
}

// abandoned notes that an attempt to add views which were due has ended without an outcome: they are due again.
func (m *made) abandoned(list []views.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range list {
		delete(m.adding, v.Name)
	}
	m.wakeUp()
}

// firstFailure is why the first one by its name could not be added; nil: none has failed.
func (m *made) firstFailure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		if why := m.byName[name].why; why != nil {
			return why
		}
	}
	return nil
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

// takeLeaving takes those out that leave still, and returns the names of views that have a configuration, and are not to have any. seen was found out behind mark: who has come to
// see one before mark is among them, and who has come behind it has had it stay.
func (m *made) takeLeaving(seen map[uint32]bool) (gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, one := range m.byName {
		if one.isLeaving && !seen[one.view.Number] && !m.adding[name] {
			delete(m.byName, name)
			delete(m.numberOf, name)
			delete(m.names, one.view.Number)
		}
	}
	for name := range m.has {
		if m.byName[name] == nil && !m.adding[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// removed notes that views have no configuration any more.
func (m *made) removed(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.has, name)
	}
}
