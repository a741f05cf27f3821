// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/xlb-project/xlb/internal/slowpath/buffers"
)

// ClientView is what the form of a response depends on: the client's request, and whether its connection is kept.
type ClientView struct {
	// Method of the request.
	Method string
	// HTTP10: the request has version 1.0.
	HTTP10 bool
	// KeepAlive: the connection serves further requests. Writer.Relay makes it false for a body that ends with the connection.
	KeepAlive bool
	// Trailers: those of the request and of the response pass. Otherwise they are left out.
	Trailers bool
}

// Version returns what a status line begins with, with the space.
func (v ClientView) Version() string {
	if v.HTTP10 {
		return "HTTP/1.0 "
	}
	return "HTTP/1.1 "
}

// persistence is the Connection field, or nothing where the version's default
// already says it (RFC 9112 section 9.3).
func (v ClientView) persistence() string {
	switch {
	case !v.KeepAlive:
		return "Connection: close\r\n"
	case v.HTTP10:
		return "Connection: keep-alive\r\n"
	default:
		return ""
	}
}

// Framing is how the end of a response's body is marked towards the client (RFC 9112 section 6).
type Framing uint8

const (
	// FramedEmpty: there is no body, whatever the head says.
	FramedEmpty Framing = iota
	// FramedLength: by Content-Length.
	FramedLength
	// FramedChunks: by the last chunk.
	FramedChunks
	// FramedClose: by the end of the connection.
	FramedClose
)

// chooseFraming re-frames a response for the client (RFC 9112 section 6.3).
func (v ClientView) chooseFraming(resp *Response) Framing {
	switch {
	case v.Method == http.MethodHead, resp.Status == http.StatusNoContent, resp.Status == http.StatusNotModified:
		return FramedEmpty
	case resp.Length >= 0:
		return FramedLength
	case v.HTTP10:
		return FramedClose
	default:
		return FramedChunks
	}
}

// ClientError is a failure to write to the client, as opposed to one to read from the endpoint.
type ClientError struct {
	// Err is the error of the client's connection.
	Err error
}

// Error implements error.
func (e *ClientError) Error() string { return fmt.Sprintf("write response to client: %v", e.Err) }

// Unwrap returns Err.
func (e *ClientError) Unwrap() error { return e.Err }

// Relay writes a final response with its body and trailers, and flushes it. It calls progress after every piece, and whole when the response has been
// read to its end, before the client has that end: what the client does next finds the endpoint's connection idle. An error is a *ClientError where
// the client's side has failed, and otherwise the endpoint's. The framing is the one towards the client, also of a response that has failed.
func (w *Writer) Relay(resp *Response, view *ClientView, progress, whole func()) (Framing, error) {
	f := view.chooseFraming(resp)
	if f == FramedClose {
		view.KeepAlive = false
	}
	if err := w.writeResponseHead(resp, *view, f); err != nil {
		return f, &ClientError{err}
	}
	progress()
	if resp.Body == nil {
		whole()
	} else {
		w.flushSoon()
		if err := w.copyBody(resp.Body, f, progress, whole); err != nil {
			return f, err
		}
	}
	if f == FramedChunks {
		if err := w.writeTrailers(view.Passing(resp.trailer())); err != nil {
			return f, &ClientError{err}
		}
	}
	if err := w.flush(); err != nil {
		return f, &ClientError{err}
	}
	return f, nil
}

// copyBody streams the body; the client's pace is the endpoint's pace.
func (w *Writer) copyBody(body io.Reader, f Framing, progress, whole func()) error {
	buf := buffers.Copy()
	defer buffers.PutCopy(buf)
	emit := w.WriteThrough
	if f == FramedChunks {
		emit = w.writeThroughChunk
	}
	for {
		n, err := body.Read(*buf)
		// Only a bare EOF is the end: a wrapped one is a broken connection.
		if err == io.EOF {
			whole()
		}
		if n > 0 {
			progress()
			if werr := emit((*buf)[:n]); werr != nil {
				return &ClientError{werr}
			}
			progress()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read response body: %w", err)
		}
	}
}

// Passing returns the trailers that pass: all of them, or none.
func (v ClientView) Passing(trailer []byte) []byte {
	if !v.Trailers {
		return nil
	}
	return trailer
}

func (w *Writer) writeTrailers(trailer []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeLastChunk(w.buf, trailer)
}

func (w *Writer) writeResponseHead(resp *Response, view ClientView, f Framing) error {
	head := buffers.Head()
	defer buffers.PutHead(head)
	*head = appendResponseHead((*head)[:0], resp, view, f)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.buf.Write(*head)
	return err
}

// appendResponseHead appends the endpoint's head for the client, framing last.
func appendResponseHead(b []byte, resp *Response, view ClientView, f Framing) []byte {
	b = appendStatusLine(b, resp, view)
	b = appendEndToEnd(b, resp.Fields, framingFields...)
	switch f {
	case FramedLength:
		b = appendLength(b, resp.Length)
	case FramedChunks:
		b = appendField(b, "Transfer-Encoding", "chunked")
		b = appendTrailerNames(b, resp.Fields)
	case FramedEmpty:
		b = appendAbsentFraming(b, resp, view)
	case FramedClose:
	}
	b = append(b, view.persistence()...)
	return append(b, "\r\n"...)
}

// AppendSwitch appends the head of a response behind which no HTTP follows: it has no framing. That of a 101 names the protocol.
func AppendSwitch(b []byte, resp *Response, view ClientView) []byte {
	b = appendStatusLine(b, resp, view)
	if resp.Status == http.StatusSwitchingProtocols {
		b = appendUpgrade(b, resp.Upgrade())
	}
	b = appendEndToEnd(b, resp.Fields, framingFields...)
	return append(b, "\r\n"...)
}

// appendAbsentFraming says how the body that GET would have had is framed; never on 204 (RFC 9110 section 8.6).
func appendAbsentFraming(b []byte, resp *Response, view ClientView) []byte {
	switch {
	case resp.Status == http.StatusNoContent:
	case resp.Length >= 0:
		return appendLength(b, resp.Length)
	case resp.Chunked && !view.HTTP10:
		return appendField(b, "Transfer-Encoding", "chunked")
	}
	return b
}

func appendLength(b []byte, n int64) []byte {
	b = strconv.AppendInt(append(b, "Content-Length: "...), n, 10)
	return append(b, "\r\n"...)
}

// appendStatusLine keeps the endpoint's own reason.
func appendStatusLine(b []byte, resp *Response, view ClientView) []byte {
	b = append(b, view.Version()...)
	b = strconv.AppendInt(b, int64(resp.Status), 10)
	b = append(b, ' ')
	b = append(b, resp.Reason...)
	return append(b, "\r\n"...)
}
