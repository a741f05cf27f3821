// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"
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
