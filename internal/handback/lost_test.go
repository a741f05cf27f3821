// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/test/mapstest"
)

// Where the endpoint has answered and closes before the lease has ended, the client's connection goes on if all of its request has been sent. The
// daemon writes nothing there.
func TestClientOfALostLeaseGoesOnBehindAWholeExchange(t *testing.T) {
	lease := maps.Lease{Slot: 0, Number: 7}
	const request, send = maps.PendingRequest, maps.PendingSend
	for _, tt := range []struct {
		name    string
		pending maps.Pending
		// number is that of the lease which the pending parts are of.
		number uint64
		// until is when the client's send returns; 0: never.
		until time.Duration
		whole bool
		keeps bool
		want  anchor.Outcome
	}{
		{name: "all has ended", number: 7, whole: true, keeps: true},
		{name: "the client's send is about to return", pending: send, number: 7, until: sendPatience / 2, whole: true, keeps: true},
		{name: "the client's send does not return", pending: send, number: 7, whole: true, want: anchor.Linger},
		{name: "the answer has not waited for the request", pending: request, number: 7, until: sendPatience / 2, whole: true, want: anchor.Linger},
		{name: "nothing is known of the request", number: 6, whole: true, want: anchor.Linger},
		{name: "the server's send has fallen short, or has not returned", pending: maps.PendingReply, number: 7, whole: true, want: anchor.Linger},
		{name: "a part of the answer has been moved", number: 7, want: anchor.Cut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
				mapstest.Begin(shared, maps.Lease{Number: tt.number}, tt.pending)
				if tt.until != 0 {
					time.AfterFunc(tt.until, func() { atomic.StoreUint32(&shared.Slots[0].Pending, 0) })
				}
				h := New(Config{Shared: shared})
				// A write would wait for ever.
				conn, _ := net.Pipe()
				written, got := h.endLost(conn, pool.Lost{Lease: lease, ResponseStarted: true, Whole: tt.whole, ReplyOpen: tt.pending&maps.PendingReply != 0, RequestOpen: tt.pending&(request|send) != 0})
				want := tt.want
				if tt.keeps {
					proof, ok := shared.RequestWhole(lease)
					if !ok {
						t.Fatal("the request has not ended")
					}
					want = anchor.Keep(proof)
				}
				if written != 0 || got != want {
					t.Errorf("got %d bytes, %+v, want none, %+v", written, got, want)
				}
			})
		})
	}
}
