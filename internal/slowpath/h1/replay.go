// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"io"
	"sync"
)

// maxReplay is the longest body of a request that is kept for another attempt, in bytes: Envoy's per_connection_buffer_limit_bytes.
const maxReplay = 1 << 20

// BodySource is the body of a request for one attempt.
type BodySource interface {
	// Read returns io.EOF at the end of the body.
	io.Reader
	// Whole reports whether the end has been reached.
	Whole() bool
}

// Replay keeps a request's body so that several attempts, one after another, can send it. One that is too long, or gets no memory, is not kept: then
// there is no further attempt. An attempt that has been given up may still wait for the client; what it reads is kept for the next one.
type Replay struct {
	body *RequestBody

	readMu sync.Mutex // held while the client is read

	mu      sync.Mutex
	buffer  replayBuffer  // guarded by mu
	spoiled bool          // guarded by mu; the buffer is empty, and stays so
	isLast  bool          // guarded by mu; no attempt follows the current one
	read    int           // guarded by mu; bytes that have been read of the client, of which the last ones are in the buffer
	ended   bool          // guarded by mu; with them the body has ended
	current *ReplayReader // guarded by mu; of the last attempt
}

// NewReplay returns a Replay of a body, of which nothing has been read. What it keeps beyond 4 KiB takes memory. Its user calls Drop in the end.
func NewReplay(b *RequestBody, memory Memory) *Replay {
	return &Replay{body: b, buffer: replayBuffer{memory: memory}}
}

// Spoiled reports whether the body was too long to be kept, or got no memory, so that it cannot be sent again from its beginning. A nil Replay is not
// spoiled.
func (r *Replay) Spoiled() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spoiled
}

// Hold has all be kept that is read from now on, whatever it takes, and reports true; or it reports false, since the body is spoiled. It is called before another
// attempt, which is certain to have the whole body then. Readers of earlier attempts read no more. A nil Replay can be sent again.
func (r *Replay) Hold() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spoiled {
		return false
	}
	r.current = nil
	return true
}

// NoMore says that no attempt follows the current one: what that has read is kept no longer. A nil Replay has no attempts.
func (r *Replay) NoMore() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isLast = true
	r.dropReadLocked()
}

// Drop ends the use of what has been kept. No attempt reads it any more. nil has kept nothing.
func (r *Replay) Drop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoilLocked()
}

// dropReadLocked drops what is kept when the last attempt has read all of it.
func (r *Replay) dropReadLocked() {
	if !r.isLast || r.current != nil && r.current.at < r.read {
		return
	}
	r.buffer.drop()
}

func (r *Replay) spoilLocked() {
	r.spoiled = true
	r.buffer.drop()
}

// Begin starts an attempt and returns its body. Readers of earlier attempts read no more.
func (r *Replay) Begin() *ReplayReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &ReplayReader{replay: r}
	return r.current
}

// ReplayReader is the body of one attempt. It implements BodySource.
type ReplayReader struct {
	replay *Replay
	at     int // guarded by replay.mu; bytes of the body that it has returned
}

// Whole implements BodySource. The body that has ended may have a last piece that an earlier attempt has read and not kept yet, and an attempt that has been given up
// may have missed what is kept no longer.
func (s *ReplayReader) Whole() bool {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && s.at == r.read
}

// Read implements BodySource. It returns what has been kept, and then reads the client. A reader of an earlier attempt gets an error.
func (s *ReplayReader) Read(p []byte) (int, error) {
	if n, ok := s.again(p); ok {
		return n, nil
	}
	r := s.replay
	r.readMu.Lock()
	defer r.readMu.Unlock()
	// An attempt before may have read in the meantime.
	if n, ok := s.again(p); ok {
		return n, nil
	}
	if !s.isCurrent() {
		return 0, errBodyStopped
	}
	if r.body.Whole() {
		return 0, io.EOF
	}
	n, err := r.body.Read(p)
	s.keep(p[:n])
	return n, err
}

// again reads what has been kept.
func (s *ReplayReader) again(p []byte) (n int, ok bool) {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	at := s.at - (r.read - r.buffer.length)
	if at < 0 || s.at == r.read {
		return 0, false
	}
	n = r.buffer.read(p, at)
	s.at += n
	if r.current == s {
		r.dropReadLocked()
	}
	return n, true
}

func (s *ReplayReader) isCurrent() bool {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return s.replay.current == s
}

// keep stores what has been read. A later attempt needs it, however long it is, if there is one already.
func (s *ReplayReader) keep(b []byte) {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += len(b)
	s.at += len(b)
	r.ended = r.body.Whole()
	switch {
	case r.spoiled, r.isLast && r.current == s:
	case r.current != s:
		r.buffer.insist(b)
	case r.buffer.length+len(b) > maxReplay || !r.buffer.add(b):
		r.spoilLocked()
	}
}

// AppendSmall appends a body that is short and at hand, so that it is sent with the head; otherwise it appends nothing. A body that an earlier attempt
// still waits for is not at hand. buffered is that of RequestBody.Reached.
func (s *ReplayReader) AppendSmall(b []byte, buffered func() int) []byte {
	r := s.replay
	if !r.readMu.TryLock() {
		return b
	}
	defer r.readMu.Unlock()
	if !r.body.Whole() && !r.hasKept() && r.body.Small(buffered) {
		// It is the whole body, and needs no block.
		s.keep(r.body.AppendTo(nil))
		s.rewind()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.body.Whole() || r.buffer.length > smallBody || r.buffer.length == 0 {
		return b
	}
	s.at = r.buffer.length
	return append(b, r.buffer.blocks[0]...)
}

func (r *Replay) hasKept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.length > 0
}

func (s *ReplayReader) rewind() {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	s.at = 0
}
