// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// chunkedBody reads a chunked request body as strictly as the kernel reads a chunked response (bpf/lib/http1.h): what two readers could
// end at different places is malformed. net/http takes bare LF, whitespace and any line as a trailer (RFC 9112, section 7.1).
type chunkedBody struct {
	r *bufio.Reader
	// in gets the trailers.
	in *http.Request
	// left of the current chunk.
	left uint64
	// lines is how many more bytes of size lines without data, and of trailers, are taken.
	lines int
	err   error
}

const (
	// maxChunkDigits keeps a chunk's size below 2^60.
	maxChunkDigits = 15
	// maxChunkLines bounds what a client sends without getting anywhere.
	maxChunkLines = 64 << 10
)

var errChunked = errors.New("chunked body is malformed")

// forbiddenTrailers are about framing or routing: enum field_id in bpf/lib/abi.h (RFC 9110, section 6.5.1).
var forbiddenTrailers = map[string]bool{
	"connection": true, "content-length": true, "expect": true, "host": true, "http2-settings": true, "keep-alive": true,
	"proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
}

// TrailerAllowed reports whether a field may stand behind a chunked body, whatever the case of its name.
func TrailerAllowed(name string) bool { return !forbiddenTrailers[strings.ToLower(name)] }

func newChunkedBody(r *bufio.Reader, in *http.Request) *chunkedBody {
	return &chunkedBody{r: r, in: in, lines: maxChunkLines}
}

// Read implements io.Reader. The end of the body is io.EOF; that of the connection before it is not.
func (b *chunkedBody) Read(p []byte) (n int, err error) {
	if b.err == nil && b.left == 0 {
		b.err = b.next()
	}
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	n, err = b.r.Read(p[:min(uint64(len(p)), b.left)])
	b.left -= uint64(n)
	if err == nil && b.left == 0 {
		err = b.dataEnd()
	}
	b.err = unexpected(err)
	return n, b.err
}

// Close implements io.Closer. The rest of the body stays where it is.
func (b *chunkedBody) Close() error { return nil }

// next begins a chunk, or ends the body with io.EOF.
func (b *chunkedBody) next() error {
	line, err := b.line()
	if err != nil {
		return err
	}
	size, extensions, _ := bytes.Cut(line, []byte(";"))
	if len(extensions) == 0 && len(size) < len(line) || !areExtensions(extensions) {
		return fmt.Errorf("%w: chunk extension", errChunked)
	}
	if len(size) == 0 || len(size) > maxChunkDigits || bytes.ContainsAny(size, "+-_") {
		return fmt.Errorf("%w: chunk size", errChunked)
	}
	if b.left, err = strconv.ParseUint(string(size), 16, 64); err != nil {
		return fmt.Errorf("%w: chunk size", errChunked)
	}
	if b.left > 0 {
		b.lines = maxChunkLines
		return nil
	}
	return b.trailers()
}

func (b *chunkedBody) trailers() error {
	for {
		line, err := b.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		name, value, ok := strings.Cut(string(line), ":")
		if !ok || !validToken([]byte(name)) || !validValue(value) {
			return fmt.Errorf("%w: trailer", errChunked)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !TrailerAllowed(name) {
			return fmt.Errorf("%w: trailer %s", errChunked, name)
		}
		if b.in.Trailer == nil {
			b.in.Trailer = http.Header{}
		}
		b.in.Trailer.Add(name, strings.Trim(value, " \t"))
	}
}

// line returns a line without its CR LF, valid until the next read.
func (b *chunkedBody) line() ([]byte, error) {
	line, err := b.r.ReadSlice('\n')
	if err != nil {
		return nil, unexpected(err)
	}
	if b.lines -= len(line); b.lines < 0 {
		return nil, fmt.Errorf("%w: too many lines", errChunked)
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.IndexByte(line, '\r') >= 0 {
		return nil, fmt.Errorf("%w: end of line", errChunked)
	}
	return line, nil
}

func (b *chunkedBody) dataEnd() error {
	var end [2]byte
	if _, err := io.ReadFull(b.r, end[:]); err != nil {
		return err
	}
	if end != [2]byte{'\r', '\n'} {
		return fmt.Errorf("%w: end of a chunk", errChunked)
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

// areExtensions reports whether all are "name", "name=value" or `name="value"`. A ';' in a quoted value is not understood.
func areExtensions(list []byte) bool {
	if len(list) == 0 {
		return true
	}
	for _, e := range bytes.Split(list, []byte(";")) {
		name, value, has := strings.Cut(string(e), "=")
		if inner, ok := strings.CutPrefix(value, `"`); has && ok {
			inner, ok = strings.CutSuffix(inner, `"`)
			if !ok || strings.ContainsAny(inner, `"\\`) || !validValue(inner) {
				return false
			}
			value = "quoted"
		}
		if !validToken([]byte(name)) || has && !validToken([]byte(value)) {
			return false
		}
	}
	return true
}

// validValue reports a field value (RFC 9110, section 5.5).
func validValue(s string) bool {
	for i := range len(s) {
		if !validValueByte(s[i]) {
			return false
		}
	}
	return true
}
