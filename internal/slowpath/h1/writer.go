// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/head"
)

// headHold is how long a response head waits for the first bytes of its body,
// to leave in one segment with them. Longer would delay streams.
const headHold = time.Millisecond

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

// Writer writes responses to a client's connection and counts the bytes. A timer flushes a head that is held: so it locks. Errors are those of the
// connection, unless a method says otherwise.
type Writer struct {
	conn    net.Conn
	crashes *crash.Log
	abort   func(net.Conn)

	mu   sync.Mutex
	buf  *bufio.Writer // guarded by mu
	sent uint64        // guarded by mu; bytes the connection took
	mark uint64        // guarded by mu; sent at the point where the final response begins
	hold *time.Timer   // guarded by mu
}

// NewWriter returns a writer to a client's connection. A write by the timer that panics is counted by crashes, and abort ends the connection then. The
// caller calls Release or Abandon.
func NewWriter(conn net.Conn, crashes *crash.Log, abort func(net.Conn)) *Writer {
	w := &Writer{conn: conn, crashes: crashes, abort: abort, buf: writers.Get().(*bufio.Writer)}
	w.buf.Reset(countedWriter{w})
	return w
}

// Release ends the use of the writer. It drops what has not been flushed.
func (w *Writer) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Stop()
	}
	w.buf.Reset(nil)
	writers.Put(w.buf)
	w.buf = nil
}

// Abandon is Release behind a panic: another goroutine may use the writer still, so that its buffer is not used again.
func (w *Writer) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Stop()
	}
	w.buf.Reset(countedWriter{w})
}

// countedWriter is the connection below the buffer. It has no ReadFrom, hence
// no splice.
type countedWriter struct{ w *Writer }

func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.conn.Write(p)
	c.w.sent += uint64(n)
	return n, err
}

// Sent returns the number of bytes that the connection has taken.
func (w *Writer) Sent() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Begin marks where the final response begins, for DiscardBuffered.
func (w *Writer) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = w.sent
}

// WriteThrough writes bytes as they are, and flushes.
func (w *Writer) WriteThrough(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.buf.Write(b); err != nil {
		return err
	}
	return w.buf.Flush()
}

// writeThroughChunk writes one chunk and flushes.
func (w *Writer) writeThroughChunk(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := writeChunk(w.buf, b); err != nil {
		return err
	}
	return w.buf.Flush()
}

func (w *Writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Flush()
}

// flushSoon flushes after headHold unless a flush comes first.
func (w *Writer) flushSoon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Reset(headHold)
		return
	}
	w.hold = time.AfterFunc(headHold, func() {
		defer w.crashes.Recover("the head of a response", func() { w.abort(w.conn) })
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.buf != nil {
			// An error stays with the buffer and is met by the next write.
			_ = w.buf.Flush()
		}
	})
}

// DiscardBuffered drops what has not been flushed, and reports whether nothing at all was sent behind the mark of Begin.
func (w *Writer) DiscardBuffered() (untouched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset(countedWriter{w})
	return w.sent == w.mark
}

// Informational writes a 1xx response other than 101, and flushes. The client must speak HTTP/1.1: HTTP/1.0 has no such responses.
func (w *Writer) Informational(status int, fields []head.Field) error {
	b := append([]byte(nil), "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\n"...)
	b = appendEndToEnd(b, fields, framingFields...)
	err := w.WriteThrough(append(b, "\r\n"...))
	w.Begin()
	return err
}
