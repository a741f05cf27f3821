// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

var errBodyStopped = errors.New("request body is no longer wanted")

// requestBody hands a client's body to the transport, which reads it on its own
// goroutine and may outlive the response. The downstream reader is free again
// once stop has returned.
type requestBody struct {
	in *http.Request
	// trailer of the outgoing request, filled at the end of the body.
	trailer http.Header
	// onProgress and onEnd are called on the reading goroutine.
	onProgress, onEnd func()

	started atomic.Bool
	ended   atomic.Bool
	stopped atomic.Bool

	mu   sync.Mutex // held while reading
	left int64      // guarded by mu; bytes of a body of known length, else negative
	err  error      // guarded by mu; a failure other than EOF
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started.Store(true)
	if b.stopped.Load() {
		return 0, errBodyStopped
	}
	n, err := b.in.Body.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.onProgress()
	switch err {
	case nil:
	case io.EOF: // only when bare: a wrapped one is a truncated body
		b.end()
	default:
		b.err = err
	}
	return n, err
}

func (b *requestBody) end() {
	if b.ended.Load() {
		return
	}
	for name, values := range b.in.Trailer {
		b.trailer[name] = values
	}
	b.ended.Store(true)
	b.onEnd()
}

// Close does nothing: the transport closes bodies of failed attempts, too, and
// closing the incoming body would drain it.
func (b *requestBody) Close() error { return nil }

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

// discard consumes the rest of a body for which reached was true. The transport
// must be done with it: stop comes first.
func (b *requestBody) discard() bool {
	if b.ended.Load() {
		return true
	}
	_, err := io.Copy(io.Discard, b.in.Body)
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
