// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// dialAgain is a further connection of another client's socket, which was disconnected (AF_UNSPEC): it has its cookie.
func (r *rig) dialAgain(cookie uint64) *client {
	r.t.Helper()
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), r.ports().Port4[0])
	return r.connect(to, func(_ *client, k maps.ConnKey) {
		must(r.t, r.cfg.Sockets.Conns.Put(k, maps.ConnRecord{
			Cookie: cookie, Flags: uint16(maps.ConnUnseen), Vip: testVIP.Addr().As16(), VipPort: testVIP.Port(), Listener: testListener,
		}))
	}, func(*client, int) {})
}

// The end of a lease may be told, and its response forwarded, when the socket that had it has another connection already.
func TestWhatIsLeftOfALeaseDoesNotComeToTheNextConnectionOfItsSocket(t *testing.T) {
	t.Parallel()
	lease := maps.Lease{Slot: 2, Number: 9}
	r := newRig(t, setup{leaseOf: func(uint64) (maps.Lease, bool) { return lease, true }})
	first := r.dial()
	r.awaitOpen(1)
	again := r.dialAgain(first.cookie)
	r.s.AcceptNow()
	mustNotUse(t, r, first.cookie, lease)
	if r.s.Resend(first.cookie, lease, r.whole(lease), nil) {
		t.Error("a request of the connection before is sent again on this one")
	}
	// Nor does it wait for the end of that lease.
	again.exchange("a request")
}

// The end of the first connection is not the second one's.
func TestConnectionIsFoundWhenAnEarlierOneOfItsSocketCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	first := r.dial()
	r.awaitOpen(1)
	earlier := r.s.find(first.cookie)
	again := r.dialAgain(first.cookie)
	r.s.AcceptNow()
	earlier.close()
	later := r.s.find(first.cookie)
	if later == nil || later == earlier {
		t.Fatalf("connection of the socket: got %p, want another than %p", later, earlier)
	}
	again.exchange("a request")
}
