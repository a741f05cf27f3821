// SPDX-License-Identifier: Apache-2.0

package slowpath

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

var errBodyStopped = errors.New("request body is no longer wanted")

// smallBody is the longest body, in bytes, that is sent together with its head. An endpoint that reads no request to its end
// takes as much before its answer is read.
const smallBody = 4 << 10

// requestBody hands a client's body to the goroutine that sends it. The downstream reader is free again once stop has returned.
type requestBody struct {
	from io.Reader
	turn *shares.Turn
	// onProgress and onEnd are called on the reading goroutine.
	onProgress, onEnd func()
	// onBytes likewise, with what has been read; may be nil.
	onBytes func([]byte)

	started atomic.Bool
	ended   atomic.Bool
	stopped atomic.Bool
	// broken: the client has not sent it whole, or not well formed.
	broken atomic.Bool

	mu   sync.Mutex // held while reading
	left int64      // guarded by mu; bytes of a body of known length, else negative
	err  error      // guarded by mu; a failure other than EOF
}

// newRequestBody is the body of the request with that head, and nil if it has none. from goes on behind the head; whoever reads the body gives
// the turn up meanwhile.
func newRequestBody(h *head.Head, from *bufio.Reader, turn *shares.Turn) *requestBody {
	switch {
	case h.Chunked:
		return &requestBody{from: newChunkedBody(from), left: head.NoLength, turn: turn}
	case h.Length > 0:
		return &requestBody{from: &lengthBody{r: from, left: h.Length}, left: h.Length, turn: turn}
	}
	return nil
}

// isStarted reports whether anybody has read of it.
func (b *requestBody) isStarted() bool { return b.started.Load() }

// isBroken reports whether the client's connection or its framing has failed amid it.
func (b *requestBody) isBroken() bool { return b.broken.Load() }

// trailer returns the trailers of a body that has been read, as lines.
func (b *requestBody) trailer() []byte { return trailerOf(b.from) }

// Read implements io.Reader. The end of the body is io.EOF; its turn is given up while it waits for the client.
func (b *requestBody) Read(p []byte) (int, error) {
	b.turn.Rest()
	n, err := b.read(p)
	// Not while mu is held: who stops the reading must not wait for a turn.
	b.turn.Work()
	return n, err
}

func (b *requestBody) read(p []byte) (int, error) {
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
	b.onProgress()
	if b.onBytes != nil && n > 0 {
		b.onBytes(p[:n])
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

// whole reports whether it has been read to its end.
func (b *requestBody) whole() bool { return b.ended.Load() }

func (b *requestBody) end() {
	if b.ended.Load() {
		return
	}
	b.ended.Store(true)
	b.onEnd()
}

// reached reports whether the body has ended, or its known rest lies in memory,
// so that the connection can be kept whatever becomes of the body.
func (b *requestBody) reached(buffered func() int) bool {
	if b.ended.Load() {
		return true
	}
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	return b.err == nil && b.left >= 0 && b.left <= int64(buffered())
}

// small reports whether the whole body lies in memory and is short.
func (b *requestBody) small(buffered func() int) bool {
	return b.reached(buffered) && b.left <= smallBody
}

// appendTo appends a body that is small.
func (b *requestBody) appendTo(p []byte) []byte {
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

// discard consumes the rest of a body for which reached was true. Nobody else
// may read it: stop comes first.
func (b *requestBody) discard() bool {
	if b.ended.Load() {
		return true
	}
	_, err := io.Copy(io.Discard, b.from)
	return err == nil
}

// stop ends reading: interrupt must make a blocked read of the connection fail.
// It returns the error that the client's side of the body had before.
func (b *requestBody) stop(interrupt func()) error {
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
