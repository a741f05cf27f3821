// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"io"
	"strconv"
)

// requestWriter writes a request, or the rest of one, to an endpoint's connection. It has a buffer: what is small waits for flush.
type requestWriter struct {
	buf     *bufio.Writer
	chunked bool
}

// NewRequestWriter writes to an endpoint; chunked says how the body is framed. Its user releases it.
func NewRequestWriter(to io.Writer, chunked bool) requestWriter {
	w := requestWriter{buf: writers.Get().(*bufio.Writer), chunked: chunked}
	w.buf.Reset(to)
	return w
}

// Release ends the use of the writer. Unflushed bytes are dropped.
func (w requestWriter) Release() {
	w.buf.Reset(nil)
	writers.Put(w.buf)
}

// Head writes a head as it is.
func (w requestWriter) Head(b []byte) error {
	_, err := w.buf.Write(b)
	return err
}

// Data writes some of the body, as one chunk if it is chunked.
func (w requestWriter) Data(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.chunked {
		return writeChunk(w.buf, b)
	}
	_, err := w.buf.Write(b)
	return err
}

// End ends the body and flushes. trailer holds whole lines, which only a chunked body can have.
func (w requestWriter) End(trailer []byte) error {
	if w.chunked {
		if err := writeLastChunk(w.buf, trailer); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

// Flush sends what waits.
func (w requestWriter) Flush() error { return w.buf.Flush() }

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
