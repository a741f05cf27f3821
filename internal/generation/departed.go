// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

const (
	// departure is how long the routes of a listener that was removed serve the connections that it leaves behind (Envoy: --drain-time-s, by default).
	departure = 10 * time.Minute
	// maxDeparted and maxDepartedRoutes bound what is kept meanwhile of listeners that went with earlier changes: as many as the kernel's maps take of those in force.
	maxDeparted       = 4096
	maxDepartedRoutes = 262144
)

// Departed reports whether a listener was removed, and its routes serve the connections that it has left behind.
func (l *listeners) Departed(id string) bool {
	_, ok := l.departed[id]
	return ok
}

// Closes reports whether connections to a listener close behind the answer under way: it was removed, and has its routes or not. Its client connects anew, maybe to
// the one that its address has now.
func (l *listeners) Closes(id string) bool { return l.Departed(id) || !l.HasListener(id) }

// Forgotten is how many listeners that were removed have lost their routes before their time, since the first generation: there were too many.
func (l *listeners) Forgotten() uint64 { return l.forgotten }

// leaver is a listener that was removed, or has another address now.
type leaver struct {
	id    string
	since time.Time
	table *model.RouteTable
}

// keepDeparted has the routes of removed listeners serve on, of those that have another address now, and of those without HTTP from now on.
func (l *listeners) keepDeparted(before *listeners, now time.Time) {
	l.departed = map[string]time.Time{}
	list := l.leavers(before, now)
	most := mostOf(list, now)
	l.forgotten += uint64(len(list) - most)
	for _, one := range list[:most] {
		l.departed[one.id], l.tables[one.id] = one.since, one.table
		if v, ok := before.views[one.id]; ok {
			l.views[one.id] = v
		}
	}
}

// leavers are the listeners whose time has not ended, the last that was removed first.
func (l *listeners) leavers(before *listeners, now time.Time) (list []leaver) {
	for id, table := range before.tables {
		if _, ok := l.tables[id]; ok || table == nil {
			continue
		}
		since, known := before.departed[id]
		if !known {
			since = now
		}
		if now.Sub(since) < departure {
			list = append(list, leaver{id, since, table})
		}
	}
	slices.SortFunc(list, func(a, b leaver) int { return cmp.Or(b.since.Compare(a.since), strings.Compare(a.id, b.id)) })
	return list
}

// mostOf is how many of a list serve on. All are that go now: they were in force together.
func mostOf(list []leaver, now time.Time) int {
	counted, routes := map[*model.RouteTable]bool{}, 0
	for i, one := range list {
		if !counted[one.table] {
			counted[one.table] = true
			routes += routesOf(one.table)
		}
		if one.since.Before(now) && (i >= maxDeparted || routes > maxDepartedRoutes) {
			return i
		}
	}
	return len(list)
}

func routesOf(t *model.RouteTable) (n int) {
	for _, h := range t.VirtualHosts {
		n += len(h.Routes)
	}
	return n
}
