// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/topology"
)

// listeners is what a generation knows of its listeners. Generations with the same listeners share it.
type listeners struct {
	of []*model.Listener
	// tables, and what else a listener has for the slow path, by ListenerID; tables is nil before the first configuration.
	tables map[string]*model.RouteTable
	tcp    map[string]*model.TCPProxy
	// inspections are those of listeners whose connections' first bytes decide.
	inspections map[string]*model.Inspection
	// departed are listeners that have been removed, or had that address, and since when: their tables still serve the connections that there are.
	departed map[string]time.Time
	// forgotten counts those that were dropped before their time, since the first generation.
	forgotten uint64
	// inner finds the listeners that endpoints may be, kernelNumbers what the kernel calls listeners, by name.
	inner         *topology.Inner
	kernelNumbers map[model.ListenerName]uint32
	// views are those of listeners by ListenerID, where that is not the shared one.
	views map[string]model.View
	// limits of connections, by number.
	limits map[uint32]anchor.Limits
	// shortest is the shortest limit of requests; 0: there is no limit.
	shortest time.Duration
}

// ListenerID is what the slow path calls a listener by: its number, which stays with its address. By its name the connections to the address that it had
// before would be those of the new one.
func ListenerID(number uint32) string { return strconv.FormatUint(uint64(number), 10) }

// Routes returns the routes of a listener by its ListenerID. ok is false where it is unknown, or has none.
func (l *listeners) Routes(id string) (t *model.RouteTable, ok bool) {
	t, ok = l.tables[id]
	return t, ok
}

// TCP returns what a listener without HTTP does, nil for others.
func (l *listeners) TCP(id string) *model.TCPProxy { return l.tcp[id] }

// Inspection returns what the first bytes of a connection to a listener decide, nil where they decide nothing.
func (l *listeners) Inspection(id string) *model.Inspection { return l.inspections[id] }

// InnerListener returns the listener of a view at the address of an endpoint, or nil.
func (l *listeners) InnerListener(v model.View, at netip.AddrPort) *model.Listener {
	return l.inner.At(v, at)
}

// HasListener reports whether a listener is known by that, also one that has departed.
func (l *listeners) HasListener(id string) bool {
	_, hasRoutes := l.tables[id]
	return hasRoutes || l.tcp[id] != nil
}

// View is that of a listener, of one that has departed, too.
func (l *listeners) View(id string) model.View { return l.views[id] }

// ListenerNumber is what the kernel calls the listener of that name. ok is false where its connections are left alone.
func (l *listeners) ListenerNumber(name model.ListenerName) (number uint32, ok bool) {
	number, ok = l.kernelNumbers[name]
	return number, ok
}

// Limits are those of connections to a listener, by its number. Those of one that has gone end with its view alone.
func (l *listeners) Limits(listener uint32) anchor.Limits {
	limits, ok := l.limits[listener]
	if id := ListenerID(listener); !ok && l.Departed(id) {
		return anchor.Limits{Drain: model.DefaultDrain, View: l.views[id].Number}
	}
	limits.AnyView = limits.AnyView || !ok
	return limits
}

// AllLimits are those of all listeners, by number; nil before the first configuration.
func (l *listeners) AllLimits() map[uint32]anchor.Limits { return l.limits }

// hasListeners reports whether these are the listeners, and their numbers: a change that has failed since may have given the same listeners others.
func (l *listeners) hasListeners(list []*model.Listener, numbers map[model.ListenerName]uint32) bool {
	return l.tables != nil && slices.Equal(l.of, list) && maps.Equal(l.kernelNumbers, numbers)
}

// nextListeners is what is known of the listeners of the next generation.
func (l *listeners) nextListeners(in *Input, numbers map[model.ListenerName]uint32) *listeners {
	next := &listeners{of: in.Config.Listeners, inner: topology.InnerOf(in.Config.Listeners), kernelNumbers: numbers, forgotten: l.forgotten}
	next.add(in.Config.Listeners)
	next.keepDeparted(l, in.At)
	return next
}

func (l *listeners) add(list []*model.Listener) {
	l.tables, l.tcp, l.inspections = map[string]*model.RouteTable{}, map[string]*model.TCPProxy{}, map[string]*model.Inspection{}
	l.limits, l.views = map[uint32]anchor.Limits{}, map[string]model.View{}
	l.shortest = shortestOfRequests(list)
	for _, lis := range list {
		number, ok := l.kernelNumbers[lis.FullName()]
		if !ok {
			continue // its connections are left alone
		}
		l.limits[number] = limitsOf(lis)
		id := ListenerID(number)
		if lis.View != (model.View{}) {
			l.views[id] = lis.View
		}
		switch {
		case lis.Inspection != nil:
			l.tables[id], l.inspections[id] = lis.Routes, lis.Inspection
		case lis.TCP != nil:
			l.tcp[id] = lis.TCP
		default:
			l.tables[id] = lis.Routes
		}
	}
}

// shortestOfRequests is that of the requests to some listeners, whatever their cluster says.
func shortestOfRequests(listeners []*model.Listener) time.Duration {
	var shortest shortestOf
	for _, l := range listeners {
		shortest.note(l.Routes.HeadTimeout, l.Routes.RequestTimeout, l.Routes.MaxDuration)
		for _, h := range l.Routes.VirtualHosts {
			for _, r := range h.Routes {
				shortest.note(r.Timeout, r.Idle, r.MaxDuration)
			}
		}
	}
	return shortest.limit
}

// shortestOf limits; 0 is no limit.
type shortestOf struct{ limit time.Duration }

func (s *shortestOf) note(limits ...time.Duration) {
	for _, l := range limits {
		if l > 0 && (s.limit == 0 || l < s.limit) {
			s.limit = l
		}
	}
}

func limitsOf(l *model.Listener) anchor.Limits {
	c := &l.Routes.Connections
	out := anchor.Limits{Idle: c.Idle, Age: c.Age, Drain: c.Drain, View: l.View.Number, AnyView: l.TCP != nil}
	i := l.Inspection
	if i == nil {
		return out
	}
	// What serves those that have not begun in time.
	proxy, http := i.Serves(&model.Opening{})
	if !i.Continue || !http {
		out.Opening, out.Unopened = i.Timeout, i.Continue && proxy != nil
	}
	return out
}
