// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// leavingTime is how soon an endpoint is to learn that nobody waits for its answer any more.
const leavingTime = await.Patience

// holdAt sends a request that the endpoint holds, and waits until it is there.
func holdAt(t *testing.T, from *harness.Place, service netip.AddrPort, o *harness.Origin, then ...programs.Step) *harness.Process {
	t.Helper()
	steps := append([]programs.Step{{Send: get("/hold")}}, then...)
	client := from.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{Address: service.String(), Steps: steps, Timeout: 30 * time.Second})
	awaitHeld(t, o, 1)
	return client
}

func awaitHeld(t *testing.T, o *harness.Origin, want int64) {
	t.Helper()
	harness.Eventually(t, leavingTime, "requests that the endpoint holds", func() bool { return o.State(t).Held == want })
}

// The kernel ends a killed process's connection as an orderly close does: the end of the sending side is all that comes.
func TestRequestOfAKilledClientEnds(t *testing.T) {
	receive := programs.Step{Receive: true}
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, o := harness.Service(), servers.Origin(t, "one")
		harness.Start(t, mode, harness.OneCluster(service, o.Address), clients)
		holdAt(t, clients, service, o, receive).Kill(t)
		awaitHeld(t, o, 0)
	})
	t.Run("bound", func(t *testing.T) {
		place, other := harness.TwoHosts(t)
		o := place.Origin(t, "one")
		harness.Start(t, harness.Mode{}, harness.OneCluster(everyAddress, o.Address), place)
		for _, c := range []struct {
			from *harness.Place
			to   string
		}{{other, place.Address.String()}, {place, "127.0.0.77"}} {
			holdAt(t, c.from, netip.AddrPortFrom(netip.MustParseAddr(c.to), boundPort), o, receive).Kill(t)
			awaitHeld(t, o, 0)
		}
	})
}

// A client on this host that closes its sending side alone waits for its answer.
func TestHalfClosedClientWaitsForItsAnswer(t *testing.T) {
	harness.OnlyXLB(t, "Envoy takes the client for gone")
	// Longer than the first looks for the client take.
	const later = 300 * time.Millisecond
	wait := func(t *testing.T, from *harness.Place, service netip.AddrPort, o *harness.Origin) {
		t.Helper()
		client := holdAt(t, from, service, o, programs.Step{HalfClose: true}, programs.Step{Receive: true})
		time.Sleep(later)
		o.Release(t)
		var r programs.ExchangeReport
		client.Next(t, &r)
		requireStatus(t, r, 200)
	}
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, o := harness.Service(), servers.Origin(t, "one")
		harness.Start(t, mode, harness.OneCluster(service, o.Address), clients)
		wait(t, clients, service, o)
	})
	t.Run("bound", func(t *testing.T) {
		place, other := harness.TwoHosts(t)
		o := place.Origin(t, "one")
		harness.Start(t, harness.Mode{}, harness.OneCluster(everyAddress, o.Address), place)
		wait(t, place, netip.MustParseAddrPort("127.0.0.77:8080"), o)
		// Of one on another host the daemon knows only that it has stopped sending: it is treated as disconnected, as in Envoy.
		r := runExchange(t, other, netip.AddrPortFrom(place.Address, boundPort), 30*time.Second,
			programs.Step{Send: get("/hold")}, programs.Step{HalfClose: true}, programs.Step{Receive: true})
		if len(r.Replies) > 0 || r.Error == "" {
			t.Errorf("a client of another host that closed its sending side: got %+v, want the end of the connection", r)
		}
		awaitHeld(t, o, 0)
	})
}
