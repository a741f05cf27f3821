// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// clientView is what a response's form depends on.
type clientView struct {
	method    string
	http10    bool
	keepAlive bool
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
func (v clientView) chooseFraming(resp *http.Response) framing {
	switch {
	case v.method == http.MethodHead, resp.StatusCode == http.StatusNoContent,
		resp.StatusCode == http.StatusNotModified:
		return framedEmpty
	case resp.ContentLength >= 0:
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
// progress is called after every piece. The body is not closed.
func (w *clientWriter) relay(resp *http.Response, view *clientView, progress func()) (framing, error) {
	f := view.chooseFraming(resp)
	if f == framedClose {
		view.keepAlive = false
	}
	if err := w.writeResponseHead(resp, *view, f); err != nil {
		return f, &clientError{err}
	}
	progress()
	if f != framedEmpty && resp.ContentLength != 0 {
		w.flushSoon()
		if err := w.copyBody(resp.Body, f, progress); err != nil {
			return f, err
		}
	}
	if f == framedChunks {
		if err := w.writeTrailers(resp.Trailer); err != nil {
			return f, &clientError{err}
		}
	}
	if err := w.flush(); err != nil {
		return f, &clientError{err}
	}
	return f, nil
}

// copyBody streams the body; the client's pace is the endpoint's pace.
func (w *clientWriter) copyBody(body io.Reader, f framing, progress func()) error {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	emit := w.writeThrough
	if f == framedChunks {
		emit = w.writeChunk
	}
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			progress()
			if werr := emit((*buf)[:n]); werr != nil {
				return &clientError{werr}
			}
			progress()
		}
		// Only a bare EOF is the end: a wrapped one is a broken connection.
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read response body: %w", err)
		}
	}
}

func (w *clientWriter) writeTrailers(trailer http.Header) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.buf.WriteString("0\r\n"); err != nil {
		return err
	}
	if err := trailer.Write(w.buf); err != nil {
		return err
	}
	_, err := w.buf.Write(crlf)
	return err
}

// framingFields are written by writeResponseHead itself.
var framingFields = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

func (w *clientWriter) writeResponseHead(resp *http.Response, view clientView, f framing) error {
	length := resp.Header.Get("Content-Length")
	removeHopByHop(resp.Header)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interim = nil
	w.buf.WriteString(view.version())
	w.buf.WriteString(statusText(resp))
	w.buf.WriteString("\r\n")
	if err := resp.Header.WriteSubset(w.buf, framingFields); err != nil {
		return err
	}
	switch f {
	case framedLength:
		w.buf.WriteString("Content-Length: " + strconv.FormatInt(resp.ContentLength, 10) + "\r\n")
	case framedChunks:
		w.buf.WriteString("Transfer-Encoding: chunked\r\n")
		w.writeTrailerNames(resp.Trailer)
	case framedEmpty:
		// The length of what GET would have returned; never on 204.
		if length != "" && resp.StatusCode != http.StatusNoContent {
			w.buf.WriteString("Content-Length: " + length + "\r\n")
		} else if len(resp.TransferEncoding) > 0 && !view.http10 && resp.StatusCode != http.StatusNoContent {
			w.buf.WriteString("Transfer-Encoding: chunked\r\n")
		}
	case framedClose:
	}
	w.buf.WriteString(view.persistence())
	_, err := w.buf.Write(crlf) // a bufio error is sticky: this one tells of all
	return err
}

func (w *clientWriter) writeTrailerNames(trailer http.Header) {
	if len(trailer) == 0 {
		return
	}
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		names = append(names, name)
	}
	w.buf.WriteString("Trailer: " + strings.Join(names, ", ") + "\r\n")
}

// statusText is "code reason"; the endpoint's own reason if it is clean.
func statusText(resp *http.Response) string {
	if httpguts.ValidHeaderFieldValue(resp.Status) && len(resp.Status) >= 4 {
		return resp.Status
	}
	return strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
}

var errNames = errors.New("a header name of the response is none")

// plainNames reports whether all names are tokens (RFC 9110 section 5.1). net/http
// keeps "Content-Length " as a field of its own, by which others frame.
func plainNames(header http.Header) bool {
	for name := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
	}
	return true
}

// removeHopByHop removes the fields that concern one connection only: those of
// RFC 9110 section 7.6.1 and those that Connection names.
func removeHopByHop(header http.Header) {
	for _, value := range header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "te") {
				header.Del(name)
			}
		}
	}
	keepTrailers := httpguts.HeaderValuesContainsToken(header["Te"], "trailers")
	for _, name := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade"} {
		delete(header, name)
	}
	if keepTrailers {
		header["Te"] = []string{"trailers"}
	}
}
