// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

// openLease makes the rig's slot a lease of which the request has not ended, and of which the client's bytes are.
func (r *rig) openLease(c *client, slot uint32, lease uint64) maps.Lease {
	r.t.Helper()
	r.setLease(slot, lease)
	mapstest.Begin(r.shared, maps.Lease{Slot: slot, Number: lease}, maps.PendingRequest|maps.PendingResponse)
	must(r.t, r.cfg.Sockets.SlowConns.Put(c.cookie, maps.SlowConn{
		Reason: uint32(maps.HandoverBodySpilled), Slot: slot, Lease: lease, HasLease: 1,
	}))
	return maps.Lease{Slot: slot, Number: lease}
}

// setLeased makes the slot that of a lease of which this is pending. The anchor may look at it already.
func (r *rig) setLeased(slot uint32, pending maps.Pending, request uint32) {
	s := &r.shared.Slots[slot]
	atomic.StoreUint32(&s.Request, request)
	mapstest.Begin(r.shared, r.shared.Current(slot), pending)
	atomic.StoreUint32(&s.Holder, uint32(atomic.LoadUint64(&s.Lease)))
	atomic.StoreUint32(&s.State, uint32(maps.SlotLeased))
}

func TestBytesOfARequestThatHasBegunAreUploaded(t *testing.T) {
	t.Parallel()
	uploaded := make(chan string, 1)
	r := newRig(t, setup{
		serve: func(context.Context, net.Conn, Session) Result {
			t.Error("the rest of a request was served as a request")
			return Result{}
		},
		upload: func(_ context.Context, conn Client, l maps.Lease) Uploaded {
			if want := (maps.Lease{Slot: 2, Number: 7}); l != want {
				t.Errorf("lease of the upload: got %+v, want %+v", l, want)
			}
			b := make([]byte, 64)
			n, err := conn.Peek(b)
			must(t, err)
			// What lies behind the request stays.
			must(t, conn.Discard(4))
			uploaded <- string(b[:n])
			return Uploaded{Read: 4, End: UploadAborted}
		},
	})
	c := r.dial()
	r.openLease(c, 2, 7)
	_, err := io.WriteString(c, "rest")
	must(t, err)
	if got := await.Next(t, uploaded, "upload"); got != "rest" {
		t.Errorf("uploaded %q, want %q", got, "rest")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of an aborted upload is open")
	}
}

// No program ends a tunnel of which the daemon has the client's bytes.
func TestLeaseEndsWithTheConnectionThatTheDaemonCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{
		upload: func(context.Context, Client, maps.Lease) Uploaded { return Uploaded{End: UploadAborted} },
	})
	c := r.dial()
	lease := r.openLease(c, 2, 7)
	r.setLeased(2, maps.PendingRequest|maps.PendingResponse, 0)
	_, err := io.WriteString(c, "rest")
	must(t, err)
	c.mustEnd(unix.ECONNRESET)
	if r.shared.Holds(lease) || r.shared.State(2) != maps.SlotBroken {
		t.Errorf("the lease is held: %t, its slot's state %d", r.shared.Holds(lease), r.shared.State(2))
	}
}

// The daemon sees that a lease has broken before it has told the client. Meanwhile the connection must not end cleanly, which is what a
// client that has ended its side gets otherwise.
func TestLeaseThatBreaksAroundTheClientsEndIsNoCleanEnd(t *testing.T) {
	tests := []struct {
		name string
		// broken: before the client's end.
		broken, tunnel bool
	}{
		{"tunnel, behind it", false, true},
		{"tunnel, before it", true, true},
		{"response, behind it", false, false},
		{"response, before it", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lease := maps.Lease{Slot: 2, Number: 7}
			r := newRig(t, setup{
				upload: func(context.Context, Client, maps.Lease) Uploaded {
					if tt.broken {
						return Uploaded{End: UploadLost}
					}
					return Uploaded{End: UploadClosed}
				},
				leaseOf: func(uint64) (maps.Lease, bool) { return lease, true },
			})
			c := r.dial()
			r.openLease(c, lease.Slot, lease.Number)
			if tt.tunnel {
				r.setLeased(2, maps.PendingResponse, uint32(maps.RequestUpgrade))
				r.shared.Switch(r.shared.Current(2))
			} else {
				r.setLeased(2, maps.PendingResponse, 0)
			}
			if tt.broken {
				r.shared.Break(2)
			}
			must(t, c.CloseWrite())
			c.mustStayOpen()
			if !tt.broken {
				r.shared.Break(2)
				c.mustStayOpen()
			}
			r.s.Use(c.cookie, lease, maps.VerdictRequestOnSlowPath, func(net.Conn) (uint64, Outcome) { return 0, Abort })
			c.mustEnd(unix.ECONNRESET)
		})
	}
}

// The client has the head of the 101 before the daemon has made a tunnel of the lease, and may end its side at once.
func TestEndOfAClientBelongsToTheTunnelThatItsRequestBecomes(t *testing.T) {
	t.Parallel()
	uploads := make(chan struct{}, 1)
	lease := maps.Lease{Slot: 2, Number: 7}
	r := newRig(t, setup{
		upload: func(context.Context, Client, maps.Lease) Uploaded {
			uploads <- struct{}{}
			return Uploaded{End: UploadAborted}
		},
		leaseOf: func(uint64) (maps.Lease, bool) { return lease, true },
	})
	c := r.dial()
	r.openLease(c, lease.Slot, lease.Number)
	r.setLeased(2, maps.PendingResponse, uint32(maps.RequestUpgrade))
	must(t, c.CloseWrite())
	select {
	case <-uploads:
		t.Error("the client's end was passed on before there was a tunnel")
	case <-time.After(tooEarly):
	}
	r.shared.Switch(r.shared.Current(2))
	await.Next(t, uploads, "the tunnel's end")
}
