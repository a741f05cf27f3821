// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// The sock_ops program may have found a slot that was announced, and write to it after the connect
// has failed: the next i-sock must not be there yet.
func TestSlotOfAFailedConnectWaitsForProgramsThatRun(t *testing.T) {
	t.Parallel()
	waits, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	// The grace period ends when the test says so.
	settle := func() error {
		once.Do(func() { close(waits) })
		<-ended
		return nil
	}
	r := newRig(t, setup{slots: 1, waitForReaders: settle})
	end := sync.OnceFunc(func() { close(ended) })
	t.Cleanup(end)
	s := newServer(t)
	must(t, s.listener.Close())
	r.set(s.endpoint(ours))
	await.Next(t, waits, "wait for programs that run")
	r.awaitDown(ours, true)
	if got, want := r.state(0), maps.SlotBroken; got != want {
		t.Errorf("state of the slot while a program may be at work on it: got %d, want %d", got, want)
	}
	if got := r.free(); got != 0 {
		t.Errorf("free slots while a program may be at work on the only one: got %d, want 0", got)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", s.address.String())
	must(t, err)
	serve(t, l)
	r.closeAtEnd()
	end()
	r.awaitIdle(ours, 1)
}

// The index of an endpoint that has gone is another's only when the slots are free that it was
// announced with.
func TestEndpointWithAFailedConnectIsReleasedBehindItsSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newServer(t)
	must(t, s.listener.Close())
	r.set(s.endpoint(ours))
	r.awaitDown(ours, true)
	r.p.SetEndpoints(nil)
	if got := await.Next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
}

// free counts the slots that may be used.
func (r *rig) free() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return len(r.p.free)
}
