// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/textproto"

	"github.com/xlb-project/xlb/internal/chunked"
)

// chunkedBody is the data of a chunked request body. net/http's own reader takes
// bare LF, whitespace and any line as a trailer.
type chunkedBody struct {
	r    *bufio.Reader
	body chunked.Body
	err  error
}

// newChunkedBody reads from r; the request gets the trailers.
func newChunkedBody(r *bufio.Reader, in *http.Request) *chunkedBody {
	return &chunkedBody{r: r, body: chunked.New(chunked.State{}, func(name, value string) {
		if in.Trailer == nil {
			in.Trailer = http.Header{}
		}
		in.Trailer.Add(textproto.CanonicalMIMEHeaderKey(name), value)
	})}
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
	b.err = unexpected(err)
	_, _ = b.body.Follow(p[:n]) // data is never malformed
	return n, b.err
}

// Close implements io.Closer. The rest of the body stays where it is.
func (b *chunkedBody) Close() error { return nil }

// toData consumes what comes before the next data, or ends with io.EOF.
func (b *chunkedBody) toData() error {
	for b.body.Left() == 0 {
		if b.body.Done() {
			return io.EOF
		}
		if _, err := b.r.Peek(1); err != nil {
			return unexpected(err)
		}
		buffered, _ := b.r.Peek(b.r.Buffered())
		n, _, err := b.body.Next(buffered)
		_, _ = b.r.Discard(n) // they are buffered
		if err != nil {
			return err
		}
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
