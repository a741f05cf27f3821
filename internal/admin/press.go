// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// What a press has room and time for.
const (
	// maxSheets are how many pages are in memory at once, whoever reads them.
	maxSheets = 3
	// sheetTime is how long a page is kept for those who read it slowly when there is no room for another.
	sheetTime = 2 * time.Second
	// startTime is how long a request waits for its page to be begun.
	startTime = 10 * time.Second
)

// press makes pages that take memory: one at a time, for all who ask for it before it is begun, and few are kept for who reads them. So what
// it takes does not depend on how many ask, nor on how slowly they read.
type press struct {
	keyOf func(*http.Request) string
	// maker is a semaphore: one goroutine makes a page.
	maker chan struct{}

	mu sync.Mutex
	// next are those that are not begun, by key; held are the others that somebody has not read to the end, oldest first. Guarded by mu.
	next map[string]*sheet
	held []*sheet
	// gone is closed when one of held has gone; another takes its place. Guarded by mu.
	gone chan struct{}
}

// sheet is one page. Its answer is whole when made is closed.
type sheet struct {
	key    string
	made   chan struct{}
	answer recorder
	// since is when it was made, zero before; readers have not read it to the end. Guarded by the press's mu.
	since   time.Time
	readers map[*http.ResponseController]struct{}
}

// newPress makes a press of pages that are the same for requests with the same key.
func newPress(keyOf func(*http.Request) string) *press {
	return &press{keyOf: keyOf, maker: make(chan struct{}, 1), next: map[string]*sheet{}, gone: make(chan struct{})}
}

// target is the key of pages that depend on nothing but path and query.
func target(r *http.Request) string { return r.URL.Path + "?" + r.URL.RawQuery }

// of serves a page.
func (p *press) of(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		s, first := p.join(p.keyOf(r), c)
		defer p.leave(s, c)
		if first {
			p.print(s, page, r)
		}
		select {
		case <-s.made:
			s.answer.writeTo(w)
		case <-r.Context().Done():
		}
	}
}

func (p *press) join(key string, c *http.ResponseController) (s *sheet, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = p.next[key]
	if s == nil {
		s, first = &sheet{key: key, made: make(chan struct{}), readers: map[*http.ResponseController]struct{}{}}, true
		p.next[key] = s
	}
	s.readers[c] = struct{}{}
	return s, first
}

func (p *press) leave(s *sheet, c *http.ResponseController) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(s.readers, c)
	at := slices.Index(p.held, s)
	if len(s.readers) > 0 || s.since.IsZero() || at < 0 {
		return
	}
	p.held = slices.Delete(p.held, at, at+1)
	close(p.gone)
	p.gone = make(chan struct{})
}

// print makes a page, for others too when the client that asked first has gone.
func (p *press) print(s *sheet, page http.HandlerFunc, r *http.Request) {
	defer close(s.made)
	end := time.NewTimer(startTime)
	defer end.Stop()
	select {
	case p.maker <- struct{}{}:
		defer func() { <-p.maker }()
	case <-end.C:
		p.refuse(s)
		return
	}
	if !p.begin(s, end.C) {
		p.refuse(s)
		return
	}
	defer func() {
		p.mu.Lock()
		s.since = time.Now()
		p.mu.Unlock()
	}()
	page(&s.answer, r.WithContext(context.WithoutCancel(r.Context())))
}

// refuse answers those who wait for a page that is not begun.
func (p *press) refuse(s *sheet) {
	p.mu.Lock()
	delete(p.next, s.key)
	p.mu.Unlock()
	s.answer.Header().Set("Retry-After", "1")
	writeText(&s.answer, http.StatusServiceUnavailable, "too many other pages are asked for; ask again\n")
}

// begin makes room for a page. It reports whether there is any before end. Requests that come from now on ask for another.
func (p *press) begin(s *sheet, end <-chan time.Time) bool {
	for {
		p.mu.Lock()
		room, wait, gone := len(p.held) < maxSheets, time.Duration(0), p.gone
		if room {
			p.held = append(p.held, s)
			delete(p.next, s.key)
		} else if wait = time.Until(p.held[0].since.Add(sheetTime)); wait <= 0 {
			p.held[0].cut()
			wait = sheetTime
		}
		p.mu.Unlock()
		if room {
			return true
		}
		select {
		case <-gone:
		case <-time.After(wait):
		case <-end:
			return false
		}
	}
}

// cut ends the connections, or streams, of those who still read it. The caller holds the press's mu.
func (s *sheet) cut() {
	for c := range s.readers {
		// Who cannot be cut is waited for.
		_ = c.SetWriteDeadline(time.Unix(1, 0))
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorder) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *recorder) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *recorder) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	status := a.status
	if status == 0 { // the page has failed
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(status)
	// A client that has gone needs no answer.
	_, _ = w.Write(a.body.Bytes())
}
