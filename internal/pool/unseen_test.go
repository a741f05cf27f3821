// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// A client that could not send closes, and sends again what it could not: not so the daemon.
func TestRequestThatNobodyHasSeenIsSentAgainOnce(t *testing.T) {
	t.Parallel()
	const cookie, text = 77, "POST / HTTP/1.1\r\n\r\n"
	tests := []struct {
		name string
		// read, held: the server has read some of it, or had all of it unread.
		read, held bool
		// open: the client's socket is.
		open bool
		want string
	}{
		{"the server had it", false, true, true, text},
		{"the server had it, the client has gone", false, true, false, text},
		{"it was on its way", false, false, true, text},
		{"it was on its way, or could not be sent", false, false, false, ""},
		{"the server may have read it", true, false, true, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{local: true})
			s := r.start(1)
			if test.open {
				r.joinClient(cookie, s.await(1)[0])
			}
			slot := r.lease(request{cookie: cookie})
			sl := &r.shared.Slots[slot]
			lease := atomic.LoadUint64(&sl.Lease)
			copy(r.shared.Copies[slot].Bytes[:], text)
			atomic.StoreUint32(&sl.Kept, uint32(len(text)))
			if test.read {
				atomic.StoreUint64(&sl.ReadLease, lease)
			}
			if test.held {
				atomic.StoreUint64(&sl.HeldLease, lease)
			}
			atomic.StoreUint32(&sl.Closed, atomic.LoadUint32(&sl.Generation))
			server := r.connOf(s, slot).(*net.TCPConn)
			must(t, server.CloseWrite())
			lost := Lost{Lease: maps.Lease{Slot: slot, Number: lease}, Cookie: cookie, Why: Reset}
			if test.want != "" {
				lost.Unseen, lost.Copy = true, &RequestCopy{Request: test.want}
			}
			r.mustFail(lost)
		})
	}
}

// joinClient makes a socket that of a client.
func (r *rig) joinClient(cookie uint64, c net.Conn) {
	r.t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(r.t, err)
	must(r.t, raw.Control(func(fd uintptr) { must(r.t, r.psocks.Put(cookie, uint64(fd))) }))
}
