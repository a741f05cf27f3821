// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
)

// witness remembers the last bytes that it passed on, for reports.
type witness struct {
	io.Reader
	last []byte
}

// shownBytes are enough for two names of an owner.
const shownBytes = 2 * blockSize

func (w *witness) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.last = append(w.last, p[:n]...)
	if over := len(w.last) - 64*shownBytes; over > 0 {
		w.last = append(w.last[:0], w.last[over:]...)
	}
	return n, err
}

// mismatch says where a body is not what it ought to be.
type mismatch struct {
	Offset    int64
	Want, Got []byte
	what      string
}

func (m *mismatch) Error() string { return fmt.Sprintf("%s at %d", m.what, m.Offset) }

// maxHead bounds a head.
const maxHead = 64 << 10

// readHead returns the lines of a head.
func readHead(r *bufio.Reader) (lines []string, err error) {
	size := 0
	for {
		line, err := r.ReadSlice('\n')
		size += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || size > maxHead:
			return lines, &mismatch{what: "a line without an end", Got: bytes.Clone(line[:min(len(line), shownBytes)])}
		case err != nil:
			if errors.Is(err, io.EOF) && size > 0 {
				err = io.ErrUnexpectedEOF
			}
			return append(lines, string(line)), err
		case !bytes.HasSuffix(line, []byte("\r\n")):
			return lines, &mismatch{what: "a line that does not end in CRLF", Got: bytes.Clone(line)}
		case len(line) == 2:
			return lines, nil
		}
		lines = append(lines, string(line[:len(line)-2]))
	}
}

// field is the value of a header field; "" if there is none.
func field(lines []string, name string) string {
	for _, l := range lines {
		if n, v, ok := strings.Cut(l, ":"); ok && strings.EqualFold(n, name) {
			return strings.Trim(v, " \t")
		}
	}
	return ""
}

// body reads a body and compares it, in as many steps as the caller wants.
type body struct {
	source io.Reader
	wire   *bufio.Reader
	stream *stream
	size   int64
	seen   int64
	// chunked bodies have an end of their own.
	chunked bool
	// mixed bodies are not compared, byteless ones may lack some bytes.
	mixed bool
	// skipped bytes of one that may lack some.
	lacks, skipped int
	buffer         []byte
	// moved is called when bytes have come: patience is for what stands still, not for what is slow.
	moved func()
}

func newBody(wire *bufio.Reader, s *stream, chunked bool, size int) *body {
	b := &body{wire: wire, stream: s, size: max(int64(size), 0), chunked: chunked, buffer: make([]byte, 16<<10)}
	b.source = io.LimitReader(wire, b.size)
	if chunked {
		b.source = httputil.NewChunkedReader(wire)
	}
	return b
}

// readTo reads on until so many bytes have been seen.
func (b *body) readTo(offset int64) error {
	for b.seen < offset {
		n, err := b.source.Read(b.buffer[:min(int64(len(b.buffer)), offset-b.seen)])
		if n > 0 && b.moved != nil {
			b.moved()
		}
		if wrong := b.compare(b.buffer[:n]); wrong != nil {
			return wrong
		}
		// An end comes with the last bytes, and again.
		if err != nil && b.seen < offset {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// finish reads to the end.
func (b *body) finish() error {
	if err := b.readTo(b.size); err != nil || !b.chunked {
		return err
	}
	n, err := b.source.Read(b.buffer)
	if n > 0 {
		return &mismatch{what: "a body that is too long", Offset: b.seen, Got: bytes.Clone(b.buffer[:min(n, shownBytes)])}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	end, err := b.wire.Peek(2)
	if err != nil {
		return err
	}
	if string(end) != "\r\n" {
		return &mismatch{what: "bytes behind the last chunk", Offset: b.seen, Got: bytes.Clone(end)}
	}
	_, err = b.wire.Discard(2)
	return err
}

func (b *body) compare(got []byte) error {
	for len(got) > 0 {
		if b.mixed {
			b.seen += int64(len(got))
			return nil
		}
		at := b.stream.differs(got, b.seen+int64(b.skipped))
		if at < 0 {
			b.seen += int64(len(got))
			return nil
		}
		if b.skipped < b.lacks {
			b.seen += int64(at)
			got = got[at:]
			b.skipped++
			continue
		}
		b.seen += int64(at)
		return &mismatch{
			what: "the body differs", Offset: b.seen,
			Want: bytes.Clone(b.stream.at(b.seen)), Got: bytes.Clone(got[at:min(len(got), at+shownBytes)]),
		}
	}
	return nil
}
