// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/shares"
)

// errBodyStopped is what RequestBody.Read returns after Stop.
var errBodyStopped = errors.New("request body is no longer wanted")

// smallBody is the length, in bytes, of the longest body that is sent together with its head. An endpoint that reads no request to its end
// takes as much before its answer is read.
const smallBody = 4 << 10

// RequestBody hands a client's body to the goroutine that sends it. One goroutine at a time reads; other methods may run meanwhile. The reader below it
// is free again when Stop has returned.
type RequestBody struct {
	from   io.Reader
	ticket *shares.Ticket
	// OnProgress is called after each read, OnEnd at the end of the body, on the reading goroutine. The user sets both before the first read.
	OnProgress, OnEnd func()
	// OnBytes is called after each read with the bytes that have been read; nil: they are not wanted.
	OnBytes func([]byte)

	started atomic.Bool
	ended   atomic.Bool
	stopped atomic.Bool
	// broken: the client has not sent it whole, or not well formed.
	broken atomic.Bool

	mu   sync.Mutex // held while reading
	left int64      // guarded by mu; bytes of a body of known length, else negative
	err  error      // guarded by mu; a failure other than EOF
}

// NewRequestBody returns the body of the request with that head, framed as the head says (RFC 9112 section 6.3), or nil if it has none. from goes on
// behind the head. Read yields the ticket while it waits for the client.
func NewRequestBody(h *head.Head, from *bufio.Reader, ticket *shares.Ticket) *RequestBody {
	switch {
	case h.Chunked:
		return &RequestBody{from: newChunkedBody(from), left: head.NoLength, ticket: ticket}
	case h.Length > 0:
		return &RequestBody{from: &lengthBody{r: from, left: h.Length}, left: h.Length, ticket: ticket}
	}
	return nil
}

// Started reports whether Read was called.
func (b *RequestBody) Started() bool { return b.started.Load() }

// Broken reports whether the client's connection has failed within the body, or the body is malformed.
func (b *RequestBody) Broken() bool { return b.broken.Load() }

// Trailer returns the trailers as whole lines, complete when the body has been read to its end; nil: the body has no chunks. The bytes are valid as
// long as the body.
func (b *RequestBody) Trailer() []byte { return trailerOf(b.from) }

// Read implements io.Reader. The end of the body is a bare io.EOF; the end of the connection before it is io.ErrUnexpectedEOF. Chunks that are
// malformed are chunked.ErrMalformed.
func (b *RequestBody) Read(p []byte) (int, error) {
	b.ticket.Yield()
	n, err := b.read(p)
	// Not while mu is held: who stops the reading must not wait for the ticket.
	b.ticket.Work()
	return n, err
}

func (b *RequestBody) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started.Store(true)
	if b.stopped.Load() {
		return 0, errBodyStopped
	}
	n, err := b.from.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.OnProgress()
	if b.OnBytes != nil && n > 0 {
		b.OnBytes(p[:n])
	}
	switch err {
	case nil:
	case io.EOF: // only when bare: a wrapped one is a truncated body
		b.end()
	default:
		b.err = err
		b.broken.Store(true)
	}
	return n, err
}

// Whole reports whether the body has been read to its end.
func (b *RequestBody) Whole() bool { return b.ended.Load() }

func (b *RequestBody) end() {
	if b.ended.Load() {
		return
	}
	b.ended.Store(true)
	b.OnEnd()
}

// Reached reports whether the body has ended, or its known rest lies in memory: then the connection can be kept, however the body is handled.
// buffered counts the bytes that have been read from the connection and lie in memory.
func (b *RequestBody) Reached(buffered func() int) bool {
	if b.ended.Load() {
		return true
	}
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	return b.err == nil && b.left >= 0 && b.left <= int64(buffered())
}

// Small reports whether the rest of the body lies in memory and is no longer than smallBody.
func (b *RequestBody) Small(buffered func() int) bool {
	return b.Reached(buffered) && b.left <= smallBody
}

// AppendTo reads a body for which Small was true, and appends it.
func (b *RequestBody) AppendTo(p []byte) []byte {
	p = slices.Grow(p, int(b.left))
	for !b.ended.Load() {
		n, err := b.Read(p[len(p) : len(p)+int(b.left)])
		p = p[:len(p)+n]
		if err != nil {
			break
		}
	}
	return p
}

// Discard reads the rest of a body for which Reached was true, and reports whether that succeeded. Stop must have returned before: no other goroutine
// may read the body meanwhile.
func (b *RequestBody) Discard() bool {
	if b.ended.Load() {
		return true
	}
	_, err := io.Copy(io.Discard, b.from)
	return err == nil
}

// Stop ends reading: a later Read fails. interrupt must make a blocked read of the connection fail. The error is that of
// the client's side of the body, if it had one before.
func (b *RequestBody) Stop(interrupt func()) error {
	if b.ended.Load() {
		return nil
	}
	b.stopped.Store(true)
	if b.mu.TryLock() {
		defer b.mu.Unlock()
		return b.err
	}
	interrupt()
	b.mu.Lock()
	defer b.mu.Unlock()
	return nil
}
