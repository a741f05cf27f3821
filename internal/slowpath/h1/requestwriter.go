// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"io"
	"strconv"
)

// RequestWriter writes a request, or the rest of one, to an endpoint's connection. It has a buffer: a short piece waits for Flush or End. Errors are
// those of the connection. Not safe for concurrent use.
type RequestWriter struct {
	buf     *bufio.Writer
	chunked bool
}

// NewRequestWriter returns a writer to an endpoint's connection; chunked: the body has chunks (RFC 9112 section 7.1). The caller calls Release.
func NewRequestWriter(to io.Writer, chunked bool) RequestWriter {
	w := RequestWriter{buf: writers.Get().(*bufio.Writer), chunked: chunked}
	w.buf.Reset(to)
	return w
}

// Release ends the use of the writer. It drops what has not been flushed.
func (w RequestWriter) Release() {
	w.buf.Reset(nil)
	writers.Put(w.buf)
}

// Head writes a whole head, which AppendRequestHead has made.
func (w RequestWriter) Head(b []byte) error {
	_, err := w.buf.Write(b)
	return err
}

// Data writes a piece of the body, as one chunk if the body has chunks. An empty piece writes nothing.
func (w RequestWriter) Data(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.chunked {
		return writeChunk(w.buf, b)
	}
	_, err := w.buf.Write(b)
	return err
}

// End ends the body and flushes. trailer holds whole lines; a body without chunks has none.
func (w RequestWriter) End(trailer []byte) error {
	if w.chunked {
		if err := writeLastChunk(w.buf, trailer); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

// Flush sends what waits in the buffer.
func (w RequestWriter) Flush() error { return w.buf.Flush() }

// writeChunk writes one chunk, which must not be empty (RFC 9112 section 7.1).
func writeChunk(w *bufio.Writer, b []byte) error {
	var size [20]byte
	line := append(strconv.AppendInt(size[:0], int64(len(b)), 16), '\r', '\n')
	for _, part := range [][]byte{line, b, crlf} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeLastChunk ends a chunked body. trailer holds whole lines.
func writeLastChunk(w *bufio.Writer, trailer []byte) error {
	w.WriteString("0\r\n")
	if _, err := w.Write(trailer); err != nil {
		return err
	}
	_, err := w.Write(crlf)
	return err
}

var crlf = []byte("\r\n")
