// SPDX-License-Identifier: Apache-2.0

package csds

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
)

// maxFetches are single answers under way at once; each may be large.
const maxFetches = 4

// streams are those that are open. For one more than may be the one is ended that has been silent for the longest time.
type streams struct {
	mu   sync.Mutex
	open []*stream // guarded by mu
}

// stream is one of them.
type stream struct {
	ended chan struct{} // closed when it has to give way
	asked time.Time     // when something was asked last; guarded by the streams' mu
}

func (s *streams) begin() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= limits.ClientStatus.Streams {
		oldest := slices.MinFunc(s.open, func(a, b *stream) int { return a.asked.Compare(b.asked) })
		close(oldest.ended)
		s.removeLocked(oldest)
	}
	out := &stream{ended: make(chan struct{}), asked: time.Now()}
	s.open = append(s.open, out)
	return out
}

func (s *streams) asked(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.asked = time.Now()
}

func (s *streams) end(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(one)
}

func (s *streams) removeLocked(one *stream) {
	s.open = slices.DeleteFunc(s.open, func(other *stream) bool { return other == one })
}

// patient writes an answer with a deadline for each piece. What has no deadlines needs none.
type patient struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (p *patient) extend() { _ = p.c.SetWriteDeadline(time.Now().Add(limits.ClientStatus.Send)) }

func (p *patient) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

func (p *patient) Flush() {
	p.extend()
	// Who has gone needs nothing.
	_ = p.c.Flush()
	_ = p.c.SetWriteDeadline(time.Time{}) // a pause is no fault of the client's
}

// Unwrap is http.ResponseController's.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
