// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// forget makes the balancer forget all connections, and give an end that one of them has to the next one of a client.
func (r *rig) forget(client string, end uint16) {
	r.t.Helper()
	heelstest.Within(r.t, r.lb.NS, func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
	r.lb.Run(fmt.Sprintf("insert rule ip t post ip saddr %s meta l4proto tcp snat to %s:%d\n", client, testBalancer, end), "nft", "-f", "-")
}

// A client without an agent that gets the end of a live connection is answered: the socket's acknowledgement comes to it,
// its reset ends what the balancer has forgotten, and its SYN comes again.
func TestConfirmABalancerThatForgetsServesANewClient(t *testing.T) {
	r, server, c, entry := directConfirmed(t)
	other := r.plug("other", "10.77.3.2")
	// What would be told of the old connection's end stays to be seen.
	server.notifier.close()
	server.notifier = nil
	r.forget("10.77.3.2", kernel.AddrPort(entry.Balancer).Port())
	fresh, err := other.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err, dump(t, server))
	}
	defer fresh.Close()
	if _, err := fresh.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(fresh).ReadString('\n'); err != nil {
		t.Fatal(err, dump(t, server))
	}
	echo(t, fresh, 1<<20)
	if n := server.count(t, "confirm_challenged"); n != 1 {
		t.Errorf("verdicts %v, want one confirm_challenged", dump(t, server))
	}
	eventually(t, "the old connection has ended", func() bool { return live(t, server) == 0 })
	if isWaiting(server.maps.HeelsEndedNow) || isWaiting(server.maps.HeelsEndedLater) {
		t.Error("the balancer is to be told of an end that is the new connection's")
	}
	// The old client learns it when it sends.
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = c.Write([]byte("?\n"))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("the old connection has %d bytes more", n)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the old client is told nothing")
	}
	echo(t, fresh, 1<<20)
}

// With an agent both live: the new connection goes around the balancer from its SYN on.
func TestConfirmABalancerThatForgetsHurtsNoClientWithAnAgent(t *testing.T) {
	r, server, c, entry := directConfirmed(t)
	r.forget(testClient, kernel.AddrPort(entry.Balancer).Port())
	fresh, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err, dump(t, server))
	}
	defer fresh.Close()
	ask(t, fresh)
	echo(t, fresh, 1<<20)
	echo(t, c, 1<<20)
	if server.count(t, "committed") != 1 || server.count(t, "accepted") != 1 {
		t.Errorf("verdicts %v, want one connection that was committed to", dump(t, server))
	}
	if n := live(t, server); n != 2 {
		t.Errorf("%d connections live, want 2", n)
	}
	fresh.Close()
	eventually(t, "the new one has ended", func() bool { return live(t, server) == 1 })
	echo(t, c, 1<<20)
}
