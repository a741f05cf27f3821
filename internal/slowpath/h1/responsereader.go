// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
)

// maxInterims bounds the interim responses of one exchange, as MAX_INTERIMS of bpf/lib/http1.h does for the kernel.
const maxInterims = 16

// HeadLimits bound the head of a response: a longer one is malformed. There are no defaults.
type HeadLimits struct {
	// Bytes is the length of a head with its empty line.
	Bytes int
	// Fields is the number of fields in a head.
	Fields int
}

// ResponseReader reads an endpoint's answers. It is pooled: a connection has one only while a request uses it.
type ResponseReader struct {
	reader *bufio.Reader
	head   []byte
	fields []head.Field
	limits HeadLimits
}

var responseReaders = sync.Pool{New: func() any { return &ResponseReader{reader: bufio.NewReaderSize(nil, 4<<10)} }}

// NewResponseReader returns a reader of what an endpoint sends. The caller calls Release.
func NewResponseReader(from io.Reader, limits HeadLimits) *ResponseReader {
	r := responseReaders.Get().(*ResponseReader)
	r.reader.Reset(from)
	r.limits = limits
	return r
}

// Release ends the use of the reader, and of the fields and bodies of its responses.
func (r *ResponseReader) Release() {
	r.reader.Reset(nil)
	if cap(r.head) > buffers.MaxHead {
		r.head = nil
	}
	responseReaders.Put(r)
}

// Buffered returns the number of bytes that the endpoint has sent behind what has been read.
func (r *ResponseReader) Buffered() int { return r.reader.Buffered() }

// Ahead returns these bytes. They are valid until the next read.
func (r *ResponseReader) Ahead() []byte {
	ahead, _ := r.reader.Peek(r.reader.Buffered()) // they are buffered: it cannot fail
	return ahead
}

// Read implements io.Reader: it reads what follows the answers, which is no HTTP behind a 101.
func (r *ResponseReader) Read(p []byte) (int, error) { return r.reader.Read(p) }

// Final reads up to a final response or 101, and gives interim ones to the function, whose error ends it. method is that of the request. An endpoint
// that does not speak HTTP is an error that IsProtocolError knows; other errors are the connection's or the function's.
func (r *ResponseReader) Final(method string, interim func(*Response) error) (*Response, error) {
	for range maxInterims + 1 {
		resp, err := r.next(method)
		if err != nil {
			return nil, err
		}
		if !resp.interim() {
			resp.Body = r.bodyOf(resp, method)
			return resp, nil
		}
		if err := interim(resp); err != nil {
			return nil, err
		}
	}
	return nil, Malformed(fmt.Sprintf("more than %d interim responses", maxInterims))
}

func (r *ResponseReader) next(method string) (*Response, error) {
	if err := r.readHead(); err != nil {
		return nil, err
	}
	resp, err := parseResponse(r.head, method, r.fields[:0], r.limits.Fields)
	if err != nil {
		return nil, err
	}
	r.fields = resp.Fields
	return resp, nil
}

// readHead reads up to the empty line that ends a head.
func (r *ResponseReader) readHead() error {
	r.head = r.head[:0]
	for {
		if _, err := r.reader.Peek(1); err != nil {
			return fmt.Errorf("read response head: %w", err)
		}
		ahead := r.Ahead()
		scanned := len(r.head)
		r.head = append(r.head, ahead...)
		end, ok := head.Scan(r.head, scanned)
		switch {
		case !ok:
			return Malformed("line ends or control characters in its head")
		case max(end, scanned) > r.limits.Bytes:
			return Malformed(fmt.Sprintf("head of more than %d bytes", r.limits.Bytes))
		case end > 0:
			_, _ = r.reader.Discard(end - scanned)
			r.head = r.head[:end]
			return nil
		}
		_, _ = r.reader.Discard(len(ahead))
	}
}

// bodyOf follows RFC 9112 section 6.3.
func (r *ResponseReader) bodyOf(resp *Response, method string) io.Reader {
	switch {
	case method == http.MethodHead, method == http.MethodConnect && resp.Status/100 == 2,
		resp.bodiless(), resp.Status == http.StatusNotModified, resp.Length == 0:
		return nil
	case resp.Chunked:
		return newChunkedBody(r.reader)
	case resp.Length > 0:
		return &lengthBody{r: r.reader, left: resp.Length}
	}
	resp.KeepAlive = false // the body ends with the connection
	return r.reader
}
