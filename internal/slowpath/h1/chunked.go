// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"errors"
	"io"

	"github.com/xlb-project/xlb/internal/chunked"
)

// chunkedBody is the data of a chunked body.
type chunkedBody struct {
	r    *bufio.Reader
	body chunked.Body
	err  error
	// Trailer holds the trailers as lines, complete when Read has returned io.EOF. chunked.MaxOverhead bounds it.
	trailer []byte
}

func newChunkedBody(r *bufio.Reader) *chunkedBody {
	b := &chunkedBody{r: r}
	b.body = chunked.New(chunked.State{}, func(name, value string) { b.trailer = appendField(b.trailer, name, value) })
	return b
}

// Read implements io.Reader. The end of the body is io.EOF; that of the connection before it is not.
func (b *chunkedBody) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.err = b.toData(); b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(uint64(len(p)), b.body.Left())])
	_, _ = b.body.Follow(p[:n]) // data is never malformed
	if b.err = unexpected(err); b.err == nil {
		b.err = b.advance() // the end comes with the last data
	}
	return n, b.err
}

// trailerOf returns the trailers of a body that has been read, as lines: nil where it has no chunks.
func trailerOf(body io.Reader) []byte {
	if b, ok := body.(*chunkedBody); ok {
		return b.trailer
	}
	return nil
}

// toData consumes what comes before the next data, or ends with io.EOF.
func (b *chunkedBody) toData() error {
	for {
		if err := b.advance(); err != nil || b.body.Left() > 0 {
			return err
		}
		if _, err := b.r.Peek(1); err != nil {
			return unexpected(err)
		}
	}
}

// advance is toData as far as that is buffered: bytes that are left in the buffer are data.
func (b *chunkedBody) advance() error {
	for b.body.Left() == 0 && !b.body.Done() && b.r.Buffered() > 0 {
		buffered, _ := b.r.Peek(b.r.Buffered()) // they are buffered: it cannot fail
		n, _, err := b.body.Next(buffered)
		_, _ = b.r.Discard(n)
		if err != nil {
			return err
		}
	}
	if b.body.Done() {
		return io.EOF
	}
	return nil
}

// unexpected makes the end of the connection an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
