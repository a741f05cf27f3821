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

// Writer writes responses to a client's connection and counts the bytes.
// A held head is flushed by a timer, so it locks.
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

// NewWriter writes to a connection, which abort ends after a panic amid a write that nobody waits for: crashes counts that.
func NewWriter(conn net.Conn, crashes *crash.Log, abort func(net.Conn)) *Writer {
	w := &Writer{conn: conn, crashes: crashes, abort: abort, buf: writers.Get().(*bufio.Writer)}
	w.buf.Reset(countedWriter{w})
	return w
}

// Release ends the use of the writer. Unflushed bytes are dropped.
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

// Abandon is release where a goroutine that has panicked may use the writer still.
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

// Sent returns the bytes that the connection took so far.
func (w *Writer) Sent() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Begin starts a response.
func (w *Writer) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = w.sent
}

// WriteThrough writes and flushes.
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

// DiscardBuffered drops what has not been flushed and reports whether nothing
// at all was sent of the final response.
func (w *Writer) DiscardBuffered() (untouched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset(countedWriter{w})
	return w.sent == w.mark
}

// Informational forwards a 1xx response, for which there must be a version that knows them. 101 is not one of them.
func (w *Writer) Informational(status int, fields []head.Field) error {
	b := append([]byte(nil), "HTTP/1.1 "+strconv.Itoa(status)+" "+http.StatusText(status)+"\r\n"...)
	b = appendEndToEnd(b, fields, framingFields...)
	err := w.WriteThrough(append(b, "\r\n"...))
	w.Begin()
	return err
}
