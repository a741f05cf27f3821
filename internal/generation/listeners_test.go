// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// numbered are the kernel's numbers of listeners of the shared view. There are no clusters.
type numbered map[string]uint32

func (n numbered) Clusters() []reconcile.ClusterEntry { return nil }

func (n numbered) ListenerNumbers() map[model.ListenerName]uint32 {
	out := map[model.ListenerName]uint32{}
	for name, number := range n {
		out[model.SharedListener(name)] = number
	}
	return out
}

// numberedIn are the kernel's numbers of listeners of another view.
type numberedIn struct {
	model.View
	numbered
}

func (n numberedIn) ListenerNumbers() map[model.ListenerName]uint32 {
	out := map[model.ListenerName]uint32{}
	for name, number := range n.numbered {
		out[n.Listener(name)] = number
	}
	return out
}

// with is the next generation, with these listeners.
func (g *Generation) with(at time.Time, kernel Kernel, list ...*model.Listener) *Generation {
	return g.Next(&Input{Config: &model.Config{Listeners: list}, Changes: &reconcile.Changes{}, Kernel: kernel, At: at})
}

func TestGenerationsShareWhatStays(t *testing.T) {
	now := time.Now()
	a, b := &model.Listener{Name: "a", Routes: &model.RouteTable{}}, &model.Listener{Name: "b", Routes: &model.RouteTable{}}
	first := Empty().with(now, numbered{"a": 1}, a)
	second := first.with(now, numbered{"a": 1}, a)
	if second.listeners != first.listeners {
		t.Error("tables are made again for the same listeners")
	}
	third := second.with(now, numbered{"a": 1, "b": 2}, a, b)
	if _, ok := third.Routes(ListenerID(2)); third.listeners == second.listeners || !ok {
		t.Error("a new listener has no routes")
	}
	if _, ok := second.Routes(ListenerID(2)); ok {
		t.Error("a generation has changed")
	}
}

// Changes that fail are no generations, but listeners may have other numbers behind them: one that was taken away has lost its entry to another, and comes back.
func TestListenersThatStayHaveTheNumbersThatTheyHaveNow(t *testing.T) {
	now := time.Now()
	routes := &model.RouteTable{}
	a := &model.Listener{Name: "a", Routes: routes}
	const before, after = 1, 1 + 4096
	g := Empty().with(now, numbered{"a": before}, a).with(now, numbered{"a": after}, a)
	if table, _ := g.Routes(ListenerID(after)); table != routes || g.Departed(ListenerID(after)) {
		t.Errorf("connections to the listener have routes %+v, which are to close %t", table, g.Departed(ListenerID(after)))
	}
	if number, _ := g.ListenerNumber(a.FullName()); number != after {
		t.Errorf("the listener has number %d, want %d", number, after)
	}
	if !g.Departed(ListenerID(before)) {
		t.Error("connections to the number that it had are kept open")
	}
}

func TestRoutesOfARemovedListenerServeOnForAWhile(t *testing.T) {
	now := time.Now()
	routes := &model.RouteTable{}
	before := Empty().with(now, numbered{"a": 1}, &model.Listener{Name: "a", Routes: routes})
	if before.Departed(ListenerID(1)) {
		t.Error("a listener in force has departed")
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  bool
	}{{"at once", 0, true}, {"almost as long as they may", departure - time.Second, true}, {"longer", departure, false}} {
		t.Run(tt.name, func(t *testing.T) {
			g := before.with(now, numbered{})
			// Another change of listeners has the time looked at.
			g = g.with(now.Add(tt.after), numbered{"b": 2}, &model.Listener{Name: "b", Routes: &model.RouteTable{}})
			table, ok := g.Routes(ListenerID(1))
			if has := g.HasListener(ListenerID(1)); has != tt.want {
				t.Errorf("the listener is there: %t, want %t", has, tt.want)
			}
			if ok != tt.want || g.Departed(ListenerID(1)) != tt.want || ok && table != routes {
				t.Errorf("routes %t, departed %t, want %t", ok, g.Departed(ListenerID(1)), tt.want)
			}
		})
	}
}

// The kernel gives the entry of a listener that has gone to another one, under another number: connections to the one that has gone have its routes until they
// close, and never those of the other.
func TestConnectionsOfARemovedListenerAreNotServedByTheNextOfItsEntry(t *testing.T) {
	now := time.Now()
	old, next := &model.RouteTable{Name: "old"}, &model.RouteTable{Name: "next"}
	const number, again = 1, 1 + 4096
	g := Empty().with(now, numbered{"a": number}, &model.Listener{Name: "a", Routes: old})
	g = g.with(now, numbered{"b": again}, &model.Listener{Name: "b", Routes: next})
	if table, _ := g.Routes(ListenerID(number)); table != old || !g.Departed(ListenerID(number)) {
		t.Errorf("connections to the listener that has gone have routes %+v, which are to close %t", table, g.Departed(ListenerID(number)))
	}
	if table, _ := g.Routes(ListenerID(again)); table != next || g.Departed(ListenerID(again)) {
		t.Errorf("connections to the next one have routes %+v, which are to close %t", table, g.Departed(ListenerID(again)))
	}
	g = g.with(now.Add(departure), numbered{"b": again, "c": 2}, &model.Listener{Name: "b", Routes: next}, &model.Listener{Name: "c", Routes: &model.RouteTable{}})
	if table, ok := g.Routes(ListenerID(number)); ok || g.HasListener(ListenerID(number)) {
		t.Errorf("later connections to the listener that has gone have routes %+v", table)
	}
}

// A connection without HTTP stays when its workload sees another view; that of a listener which has gone closes, as soon as its client has had time for one more
// request.
func TestConnectionsHaveTheViewOfTheirListener(t *testing.T) {
	shop := model.View{Number: 7, Name: "shop"}
	web := &model.Listener{Name: "web", View: shop, Routes: &model.RouteTable{Connections: model.ConnectionLimits{Drain: time.Minute}}}
	plain := &model.Listener{Name: "plain", View: shop, Routes: &model.RouteTable{}, TCP: &model.TCPProxy{}}
	before := Empty().with(time.Now(), numberedIn{shop, numbered{"web": 1, "plain": 2}}, web, plain)
	after := before.with(time.Now(), numbered{})
	tests := []struct {
		name   string
		in     *Generation
		number uint32
		want   anchor.Limits
	}{
		{"HTTP", before, 1, anchor.Limits{Drain: time.Minute, View: 7}},
		{"TCP", before, 2, anchor.Limits{View: 7, AnyView: true}},
		{"unknown", before, 3, anchor.Limits{AnyView: true}},
		{"HTTP that has gone", after, 1, anchor.Limits{Drain: 5 * time.Second, View: 7}},
		{"TCP that has gone", after, 2, anchor.Limits{AnyView: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.Limits(tt.number); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A removed listener has no limits any more, though its connections stay.
func TestLimitsLeaveWithTheirListener(t *testing.T) {
	a := &model.Listener{Name: "a", Routes: &model.RouteTable{Connections: model.ConnectionLimits{Idle: time.Minute}, HeadTimeout: 2 * time.Second}}
	g := Empty().with(time.Now(), numbered{"a": 1}, a)
	if got := g.Limits(1).Idle; got != time.Minute {
		t.Errorf("idle limit %v, want a minute", got)
	}
	if got := g.ShortestLimit(); got != 2*time.Second {
		t.Errorf("shortest limit %v, want two seconds", got)
	}
	next := g.with(time.Now(), numbered{})
	if got := next.Limits(1).Idle; got != 0 || len(next.AllLimits()) != 0 || next.AllLimits() == nil {
		t.Errorf("a listener that has gone has an idle limit of %v", got)
	}
}
