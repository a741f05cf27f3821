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

var ErrBodyStopped = errors.New("request body is no longer wanted")

// SmallBody is the longest body, in bytes, that is sent together with its head. An endpoint that reads no request to its end
// takes as much before its answer is read.
const SmallBody = 4 << 10

// RequestBody hands a client's body to the goroutine that sends it. The downstream reader is free again once stop has returned.
type RequestBody struct {
	from io.Reader
	turn *shares.Turn
	// OnProgress and onEnd are called on the reading goroutine.
	OnProgress, OnEnd func()
	// OnBytes likewise, with what has been read; may be nil.
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

// NewRequestBody is the body of the request with that head, and nil if it has none. from goes on behind the head; whoever reads the body gives
// the turn up meanwhile.
func NewRequestBody(h *head.Head, from *bufio.Reader, turn *shares.Turn) *RequestBody {
	switch {
	case h.Chunked:
		return &RequestBody{from: newChunkedBody(from), left: head.NoLength, turn: turn}
	case h.Length > 0:
		return &RequestBody{from: &lengthBody{r: from, left: h.Length}, left: h.Length, turn: turn}
	}
	return nil
}

// Started reports whether anybody has read of it.
func (b *RequestBody) Started() bool { return b.started.Load() }

// Broken reports whether the client's connection or its framing has failed amid it.
func (b *RequestBody) Broken() bool { return b.broken.Load() }

// Trailer returns the trailers of a body that has been read, as lines.
func (b *RequestBody) Trailer() []byte { return trailerOf(b.from) }

// Read implements io.Reader. The end of the body is io.EOF; its turn is given up while it waits for the client.
func (b *RequestBody) Read(p []byte) (int, error) {
	b.turn.Rest()
	n, err := b.read(p)
	// Not while mu is held: who stops the reading must not wait for a turn.
	b.turn.Work()
	return n, err
}

func (b *RequestBody) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started.Store(true)
	if b.stopped.Load() {
		return 0, ErrBodyStopped
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

// Whole reports whether it has been read to its end.
func (b *RequestBody) Whole() bool { return b.ended.Load() }

func (b *RequestBody) end() {
	if b.ended.Load() {
		return
	}
	b.ended.Store(true)
	b.OnEnd()
}

// Reached reports whether the body has ended, or its known rest lies in memory,
// so that the connection can be kept whatever becomes of the body.
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

// Small reports whether the whole body lies in memory and is short.
func (b *RequestBody) Small(buffered func() int) bool {
	return b.Reached(buffered) && b.left <= SmallBody
}

// AppendTo appends a body that is small.
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

// Discard consumes the rest of a body for which reached was true. Nobody else
// may read it: stop comes first.
func (b *RequestBody) Discard() bool {
	if b.ended.Load() {
		return true
	}
	_, err := io.Copy(io.Discard, b.from)
	return err == nil
}

// Stop ends reading: interrupt must make a blocked read of the connection fail.
// It returns the error that the client's side of the body had before.
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
