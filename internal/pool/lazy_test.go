// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

func TestManyEndpointsAreConnectedToWhenTheyAreAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, eager: 1, shrinkAfter: time.Hour})
	asked, other := newServer(t), newServer(t)
	r.set(asked.endpoint(ours), other.endpoint(1))
	if !r.p.Ready() {
		t.Error("the pool waits for i-socks that nobody has asked for")
	}
	r.sweepTwice()
	if n := len(asked.conns()) + len(other.conns()); n != 0 {
		t.Fatalf("connections before a request: got %d, want none", n)
	}
	for _, want := range []int{1, 2, 4} {
		r.runOut(ours)
		r.awaitIdle(ours, want)
	}
	// What a window has not needed is closed, to the last.
	for range 2 {
		r.endWindow()
	}
	r.awaitIdle(ours, 0)
	r.awaitNoneClosed()
	if n := len(other.conns()); n != 0 {
		t.Errorf("connections to the endpoint that was not asked: got %d, want none", n)
	}
	// Few enough by now for each to have its own.
	r.p.SetEndpoints([]Endpoint{asked.endpoint(ours)})
	r.awaitIdle(ours, 2)
}

// What takes the place of an endpoint that is asked will be asked as well.
func TestNewEndpointOfAClusterInUseIsConnectedTo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asked, left, added []uint32
		want               int
	}{
		"in place of one that is asked":         {asked: []uint32{0}, left: []uint32{0}, added: []uint32{2}, want: 1},
		"beside one of two":                     {asked: []uint32{1}, added: []uint32{2}, want: 1},
		"two beside one of two":                 {asked: []uint32{1}, added: []uint32{2, 3}, want: 1},
		"two beside two":                        {asked: []uint32{0, 1}, added: []uint32{2, 3}, want: 2},
		"beside none":                           {added: []uint32{2}},
		"in place of one that nobody has asked": {left: []uint32{0}, added: []uint32{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{initial: 2, eager: 1, shrinkAfter: time.Hour})
			var servers [4]*server
			for i := range servers {
				servers[i] = newServer(t)
			}
			// Of another cluster, and asked: it is of no consequence.
			elsewhere := servers[3].endpoint(3)
			elsewhere.Cluster = model.SharedCluster("elsewhere")
			first := []Endpoint{servers[0].endpoint(0), servers[1].endpoint(1)}
			if len(tt.added) < 2 {
				first = append(first, elsewhere)
			}
			r.set(first...)
			for _, index := range tt.asked {
				r.grow(index)
				r.awaitIdle(index, 1)
			}
			if len(tt.added) < 2 {
				r.grow(3)
				r.awaitIdle(3, 1)
			}
			var told []Endpoint
			for _, index := range []uint32{0, 1} {
				if !slices.Contains(tt.left, index) {
					told = append(told, servers[index].endpoint(index))
				}
			}
			for _, index := range tt.added {
				told = append(told, servers[index].endpoint(index))
			}
			r.p.Change(told, tt.left)
			r.p.mu.Lock()
			got := 0
			for _, index := range tt.added {
				got += r.host(index).target
			}
			r.p.mu.Unlock()
			if got != tt.want {
				t.Errorf("i-socks wanted of new endpoints: got %d, want %d", got, tt.want)
			}
			for _, index := range tt.added[:tt.want] {
				r.awaitIdle(index, 1)
			}
		})
	}
}

// Ten thousand that are asked now and then would each get a second i-sock with every request, and lose it ten seconds later.
func TestManyEndpointsHaveNoSparesWhereHalfOfTheSlotsAreInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 4, initial: 2, eager: 1, shrinkAfter: time.Hour})
	asked, other := newServer(t), newServer(t)
	r.set(asked.endpoint(ours), other.endpoint(1))
	r.runOut(ours)
	r.awaitIdle(ours, 1)
	r.runOut(1)
	r.awaitIdle(1, 1)
	r.lease(request{cookie: 1})
	r.grow(ours)
	if open, dialing, _, _ := r.view(ours); open+dialing != 1 {
		t.Errorf("i-socks while no request has missed one: got %d and %d being opened, want 1", open, dialing)
	}
	// One that finds none is not to happen again.
	r.runOut(ours)
	r.awaitIdle(ours, 1)
}
