// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

func TestGuardedConnectionIsNotGivenBack(t *testing.T) {
	t.Parallel()
	sessions := make(chan uint32, 3)
	r := newRig(t, setup{serve: echoNoting(sessions)})
	c, other := r.dial(), r.dial()
	declined := maps.SlowConn{Reason: uint32(maps.HandoverConnectionLimit), Endpoint: 3}
	r.decline(c, declined)
	r.decline(other, declined)
	// Before it is accepted: who asks first may be told of a broken invariant.
	if _, err := r.s.Guard(c.cookie); err != nil {
		t.Fatal(err)
	}
	if n := r.s.Guarded(); n != 1 {
		t.Errorf("guarded connections: got %d, want 1", n)
	}
	for _, message := range []string{"one", "three"} {
		c.exchange(message)
		// What was chosen was for the first request.
		r.awaitSlow(c, maps.SlowConn{Reason: declined.Reason})
	}
	if first, second := <-sessions, <-sessions; first != 2 || second != NoEndpoint {
		t.Errorf("endpoints of the sessions: got %d and %d, want the kernel's choice once", first, second)
	}
	other.exchange("one")
	r.awaitSlow(other, maps.SlowConn{Reason: declined.Reason, Offer: 3<<32 | 3, Offered: uint32(maps.OfferAnswered)})

	if anew, err := r.s.Guard(c.cookie); anew || err != nil {
		t.Errorf("guarded twice: %v, %v", anew, err)
	}
	for _, info := range r.s.List() {
		if want := info.Cookie == c.cookie; info.Guarded != want {
			t.Errorf("connection of %s: guarded %v, want %v", info.Client, info.Guarded, want)
		}
	}
	must(t, c.Close())
	r.awaitOpen(1)
	await.Quiet(t, func() string {
		if r.s.Guarded() != 0 {
			return "a connection that has closed is counted still"
		}
		return ""
	})
	if anew, err := r.s.Guard(c.cookie); anew || err != nil {
		t.Errorf("client that has gone: %v, %v", anew, err)
	}
}

func TestClientIsFoundByItsCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	if client, cgroups, ok := r.s.ClientOf(c.cookie); !ok || client != c.address || cgroups != testTenant {
		t.Errorf("client: got %s, %v, %v, want %s, %v", client, cgroups, ok, c.address, testTenant)
	}
	if _, _, ok := r.s.ClientOf(c.cookie + 1); ok {
		t.Error("a client that there is not")
	}
}
