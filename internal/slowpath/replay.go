// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"io"
	"sync"

	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// maxReplay is the longest body of a request that is kept for another attempt, in bytes: Envoy's per_connection_buffer_limit_bytes.
const maxReplay = 1 << 20

// bodySource is where one attempt has a request's body from.
type bodySource interface {
	// Read's error is io.EOF at the body's end.
	io.Reader
	// whole reports whether that has been reached.
	Whole() bool
}

// replay keeps a request's body so that several attempts, one after another, can send it. One that is too long is not kept: then there is
// no further attempt. An attempt that has been given up may still wait for the client; what it reads is kept for the next one.
type replay struct {
	body *h1.RequestBody

	reading sync.Mutex // held while the client is read

	mu      sync.Mutex
	kept    []byte        // guarded by mu
	tooLong bool          // guarded by mu
	current *replayReader // guarded by mu; of the last attempt
}

func newReplay(b *h1.RequestBody) *replay { return &replay{body: b} }

// spoiled reports that the body can be sent no more from its beginning.
func (r *replay) spoiled() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tooLong
}

// begin starts an attempt: those before it read no more.
func (r *replay) begin() *replayReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &replayReader{replay: r}
	return r.current
}

// replayReader is the body for one attempt.
type replayReader struct {
	replay *replay
	at     int // guarded by replay.mu
}

// whole implements bodySource.
func (s *replayReader) Whole() bool {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Whole() && s.at >= len(r.kept)
}

// Read implements bodySource.
func (s *replayReader) Read(p []byte) (int, error) {
	if n, ok := s.again(p); ok {
		return n, nil
	}
	r := s.replay
	r.reading.Lock()
	defer r.reading.Unlock()
	// An attempt before may have read in the meantime.
	if n, ok := s.again(p); ok {
		return n, nil
	}
	if !s.isCurrent() {
		return 0, h1.ErrBodyStopped
	}
	if r.body.Whole() {
		return 0, io.EOF
	}
	n, err := r.body.Read(p)
	s.keep(p[:n])
	return n, err
}

// again reads what has been kept.
func (s *replayReader) again(p []byte) (n int, ok bool) {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tooLong || s.at >= len(r.kept) {
		return 0, false
	}
	n = copy(p, r.kept[s.at:])
	s.at += n
	return n, true
}

func (s *replayReader) isCurrent() bool {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return s.replay.current == s
}

// keep stores what has been read. A later attempt needs it, however long it is, if there is one already.
func (s *replayReader) keep(b []byte) {
	r := s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.tooLong:
		return
	case r.current == s && len(r.kept)+len(b) > maxReplay:
		r.tooLong, r.kept = true, nil
		s.at = 0
		return
	}
	r.kept = append(r.kept, b...)
	s.at += len(b)
}

// appendSmall appends a body that is short and at hand, to be sent with the head. One that an attempt before waits for is not at hand.
func (s *replayReader) appendSmall(b []byte, buffered func() int) []byte {
	r := s.replay
	if !r.reading.TryLock() {
		return b
	}
	defer r.reading.Unlock()
	if !r.body.Whole() && r.body.Small(buffered) {
		s.keep(r.body.AppendTo(nil))
		s.rewind()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.body.Whole() || len(r.kept) > h1.SmallBody {
		return b
	}
	s.at = len(r.kept)
	return append(b, r.kept...)
}

func (s *replayReader) rewind() {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	s.at = 0
}
