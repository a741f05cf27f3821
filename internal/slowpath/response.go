// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/xlb-project/xlb/internal/slowpath/buffers"
)

// clientView is what a response's form depends on.
type clientView struct {
	method    string
	http10    bool
	keepAlive bool
	// trailers pass, the request's as well; otherwise they are left out.
	trailers bool
}

func (v clientView) version() string {
	if v.http10 {
		return "HTTP/1.0 "
	}
	return "HTTP/1.1 "
}

// persistence is the Connection field, or nothing where the version's default
// already says it (RFC 9112 section 9.3).
func (v clientView) persistence() string {
	switch {
	case !v.keepAlive:
		return "Connection: close\r\n"
	case v.http10:
		return "Connection: keep-alive\r\n"
	default:
		return ""
	}
}

// framing is how the end of a response's body is marked towards the client.
type framing uint8

const (
	framedEmpty  framing = iota // no body, whatever the header says
	framedLength                // Content-Length
	framedChunks
	framedClose // by the end of the connection
)

// chooseFraming re-frames a response for the client (RFC 9112 section 6.3).
func (v clientView) chooseFraming(resp *response) framing {
	switch {
	case v.method == http.MethodHead, resp.status == http.StatusNoContent, resp.status == http.StatusNotModified:
		return framedEmpty
	case resp.length >= 0:
		return framedLength
	case v.http10:
		return framedClose
	default:
		return framedChunks
	}
}

// clientError is a failure to write to the client, as opposed to one to read
// from the endpoint.
type clientError struct{ err error }

func (e *clientError) Error() string { return fmt.Sprintf("write response to client: %v", e.err) }
func (e *clientError) Unwrap() error { return e.err }

// relay writes a final response, body and trailers included, and flushes it.
// progress is called after every piece, and whole when the response has been read whole, before the client has the end of it:
// what the client does next finds the endpoint's connection idle.
func (w *clientWriter) relay(resp *response, view *clientView, progress, whole func()) (framing, error) {
	f := view.chooseFraming(resp)
	if f == framedClose {
		view.keepAlive = false
	}
	if err := w.writeResponseHead(resp, *view, f); err != nil {
		return f, &clientError{err}
	}
	progress()
	if resp.body == nil {
		whole()
	} else {
		w.flushSoon()
		if err := w.copyBody(resp.body, f, progress, whole); err != nil {
			return f, err
		}
	}
	if f == framedChunks {
		if err := w.writeTrailers(view.passing(resp.trailer())); err != nil {
			return f, &clientError{err}
		}
	}
	if err := w.flush(); err != nil {
		return f, &clientError{err}
	}
	return f, nil
}

// copyBody streams the body; the client's pace is the endpoint's pace.
func (w *clientWriter) copyBody(body io.Reader, f framing, progress, whole func()) error {
	buf := buffers.Copy()
	defer buffers.PutCopy(buf)
	emit := w.writeThrough
	if f == framedChunks {
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
				return &clientError{werr}
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

// passing is what the client gets of the trailers.
func (v clientView) passing(trailer []byte) []byte {
	if !v.trailers {
		return nil
	}
	return trailer
}

func (w *clientWriter) writeTrailers(trailer []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeLastChunk(w.buf, trailer)
}

func (w *clientWriter) writeResponseHead(resp *response, view clientView, f framing) error {
	head := buffers.Head()
	defer buffers.PutHead(head)
	*head = appendResponseHead((*head)[:0], resp, view, f)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.buf.Write(*head)
	return err
}

// appendResponseHead appends the endpoint's head for the client, framing last.
func appendResponseHead(b []byte, resp *response, view clientView, f framing) []byte {
	b = appendStatusLine(b, resp, view)
	b = appendEndToEnd(b, resp.fields, framingFields...)
	switch f {
	case framedLength:
		b = appendLength(b, resp.length)
	case framedChunks:
		b = appendField(b, "Transfer-Encoding", "chunked")
		b = appendTrailerNames(b, resp.fields)
	case framedEmpty:
		b = appendAbsentFraming(b, resp, view)
	case framedClose:
	}
	b = append(b, view.persistence()...)
	return append(b, "\r\n"...)
}

// appendSwitch appends a head without any framing: no body follows it. Of a 101 it keeps what the next hop must know.
func appendSwitch(b []byte, resp *response, view clientView) []byte {
	b = appendStatusLine(b, resp, view)
	if resp.status == http.StatusSwitchingProtocols {
		b = appendUpgrade(b, resp.upgrade())
	}
	b = appendEndToEnd(b, resp.fields, framingFields...)
	return append(b, "\r\n"...)
}

// appendAbsentFraming says how the body that GET would have had is framed; never on 204 (RFC 9110 section 8.6).
func appendAbsentFraming(b []byte, resp *response, view clientView) []byte {
	switch {
	case resp.status == http.StatusNoContent:
	case resp.length >= 0:
		return appendLength(b, resp.length)
	case resp.chunked && !view.http10:
		return appendField(b, "Transfer-Encoding", "chunked")
	}
	return b
}

func appendLength(b []byte, n int64) []byte {
	b = strconv.AppendInt(append(b, "Content-Length: "...), n, 10)
	return append(b, "\r\n"...)
}

// appendStatusLine keeps the endpoint's own reason.
func appendStatusLine(b []byte, resp *response, view clientView) []byte {
	b = append(b, view.version()...)
	b = strconv.AppendInt(b, int64(resp.status), 10)
	b = append(b, ' ')
	b = append(b, resp.reason...)
	return append(b, "\r\n"...)
}
