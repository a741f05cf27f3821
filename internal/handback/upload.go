// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Upload implements anchor.Handler: it sends on what the kernel could not, behind what the kernel has moved.
func (h *Handback) Upload(ctx context.Context, client anchor.Client, l maps.Lease) anchor.Uploaded {
	lent, endpoint, release, ok := h.cfg.Pool().Lend(l)
	if !ok {
		// The lease has ended at this moment.
		return anchor.Uploaded{End: anchor.UploadLost}
	}
	defer release()
	defer context.AfterFunc(ctx, func() { interrupt(client, endpoint) })()
	defer context.AfterFunc(lent, func() { interrupt(endpoint) })()
	ticket := h.ticketFor(client, h.cfg.Pool().Carries(l.Slot))
	defer ticket.Yield()
	returned := false
	defer func() {
		if !returned { // a panic, which resets the client
			h.cfg.Shared.CancelLease(l)
		}
	}()
	u := upload{h: h, ticket: ticket, client: client, endpoint: endpoint, lease: l, slot: &h.cfg.Shared.Slots[l.Slot]}
	u.buffer = make([]byte, copyBuffer)
	send := u.body
	if u.slot.Tunnel() {
		send = u.tunnel
	}
	out := send()
	returned = true
	return out
}

// upload is what is left of one request.
type upload struct {
	h        *Handback
	ticket   *shares.Ticket
	client   anchor.Client
	endpoint *upstream.Conn
	lease    maps.Lease
	slot     *maps.Slot
	buffer   []byte
	read     uint64
}

// errEndpointGone says that the endpoint does not take what is left; the pool tells the client.
var errEndpointGone = errors.New("endpoint has gone")

// send passes on bytes that the client has sent, and takes them from its connection only then.
// Of what it takes not all has to pass.
func (u *upload) send(passing, taken int) error {
	sent, err := u.endpoint.Write(u.buffer[:passing])
	atomic.AddUint64(&u.slot.Traffic.BytesSent, uint64(sent))
	if err != nil {
		return fmt.Errorf("%w: %w", errEndpointGone, err)
	}
	u.read += uint64(taken)
	return u.client.Discard(taken)
}

// next waits for bytes of the client, which stay there, while others work.
func (u *upload) next() (int, error) {
	u.ticket.Yield()
	defer u.ticket.Work()
	return u.client.Peek(u.buffer)
}

// body follows the chunks of a request to their end, and takes nothing of what lies behind.
func (u *upload) body() anchor.Uploaded {
	scan := remainderOf(&u.slot.Upload, u.h.trailersPass(u.client, u.slot.Endpoint))
	for {
		n, err := u.next()
		if err != nil {
			return u.broken(err)
		}
		passing, own, bad := scan.consume(u.buffer[:n])
		if bad != nil {
			return u.malformed()
		}
		if err := u.send(passing, own); err != nil {
			return u.broken(err)
		}
		if scan.done() {
			u.h.cfg.Shared.RequestDone(u.lease)
			return anchor.Uploaded{Read: u.read, End: anchor.UploadDone}
		}
	}
}

// tunnel passes on whatever the client sends, and its end.
func (u *upload) tunnel() anchor.Uploaded {
	for {
		n, err := u.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.send(n, n)
		}
		if err != nil {
			return u.broken(err)
		}
	}
	// It fails when the endpoint has gone, which the pool finds.
	_ = u.endpoint.CloseWrite()
	u.h.cfg.Shared.RequestDone(u.lease)
	return anchor.Uploaded{Read: u.read, End: anchor.UploadClosed}
}

// broken ends a request that cannot be finished.
func (u *upload) broken(err error) anchor.Uploaded {
	u.h.cfg.Logger.Debug("request ended early", "err", err)
	if errors.Is(err, errEndpointGone) {
		u.h.cfg.Pool().Lost(u.lease)
		return anchor.Uploaded{Read: u.read, End: anchor.UploadLost}
	}
	u.h.cfg.Shared.CancelLease(u.lease)
	return anchor.Uploaded{Read: u.read, End: anchor.UploadAborted}
}

func (u *upload) malformed() anchor.Uploaded {
	responseStarted := atomic.LoadUint64(&u.slot.Moved) > 0
	u.h.cfg.Shared.CancelLease(u.lease)
	return anchor.Uploaded{Read: u.read, End: anchor.UploadMalformed, ResponseStarted: responseStarted}
}
