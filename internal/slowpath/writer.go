// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// bufferSize of pooled copy buffers, in bytes.
const bufferSize = 32 << 10

// headHold is how long a response head waits for the first bytes of its body,
// to leave in one segment with them. Longer would delay streams.
const headHold = time.Millisecond

var (
	copyBuffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}
	writers     = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}
	readers     = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}
)

// clientWriter writes responses to a client's connection and counts the bytes.
// Informational responses come from the transport's goroutine, and a held head
// is flushed by a timer, so it locks.
type clientWriter struct {
	conn net.Conn

	mu   sync.Mutex
	buf  *bufio.Writer // guarded by mu
	sent uint64        // guarded by mu; bytes the connection took
	// mark is sent at the point where the final response begins, and interim
	// the owner of the request that may still get informational ones: the
	// transport may deliver those late. Guarded by mu.
	mark    uint64
	interim any
	hold    *time.Timer // guarded by mu
}

func newClientWriter(conn net.Conn) *clientWriter {
	w := &clientWriter{conn: conn, buf: writers.Get().(*bufio.Writer)}
	w.buf.Reset(countedWriter{w})
	return w
}

// release returns the buffer. Unflushed bytes are dropped.
func (w *clientWriter) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Stop()
	}
	w.interim = nil
	w.buf.Reset(nil)
	writers.Put(w.buf)
	w.buf = nil
}

// countedWriter is the connection below the buffer. It has no ReadFrom, hence
// no splice.
type countedWriter struct{ w *clientWriter }

func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.conn.Write(p)
	c.w.sent += uint64(n)
	return n, err
}

// final ends the time of informational responses.
func (w *clientWriter) final() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interim = nil
}

// bytesSent returns the bytes that the connection took so far.
func (w *clientWriter) bytesSent() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// begin starts a response, to which owner may add informational ones.
func (w *clientWriter) begin(owner any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark, w.interim = w.sent, owner
}

// writeThrough writes and flushes.
func (w *clientWriter) writeThrough(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.buf.Write(b); err != nil {
		return err
	}
	return w.buf.Flush()
}

// writeChunk writes one chunk (RFC 9112 section 7.1) and flushes.
func (w *clientWriter) writeChunk(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var size [20]byte
	line := append(strconv.AppendInt(size[:0], int64(len(b)), 16), '\r', '\n')
	for _, part := range [][]byte{line, b, crlf} {
		if _, err := w.buf.Write(part); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

var crlf = []byte("\r\n")

func (w *clientWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Flush()
}

// flushSoon flushes after headHold unless a flush comes first.
func (w *clientWriter) flushSoon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold != nil {
		w.hold.Reset(headHold)
		return
	}
	w.hold = time.AfterFunc(headHold, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.buf != nil {
			// An error stays with the buffer and is met by the next write.
			_ = w.buf.Flush()
		}
	})
}

// discardBuffered drops what has not been flushed and reports whether nothing
// at all was sent of the final response.
func (w *clientWriter) discardBuffered() (untouched bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset(countedWriter{w})
	return w.sent == w.mark
}

// informational forwards a 1xx response, unless owner's final response has
// begun. 101 is not one of them.
func (w *clientWriter) informational(owner any, code int, header http.Header) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.interim != owner {
		return nil
	}
	defer func() { w.mark = w.sent }()
	removeHopByHop(header)
	line := "HTTP/1.1 " + strconv.Itoa(code) + " " + http.StatusText(code) + "\r\n"
	if _, err := w.buf.WriteString(line); err != nil {
		return err
	}
	if err := header.Write(w.buf); err != nil {
		return err
	}
	if _, err := w.buf.Write(crlf); err != nil {
		return err
	}
	return w.buf.Flush()
}
