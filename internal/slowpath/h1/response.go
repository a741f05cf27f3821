// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/chunked"
	"github.com/xlb-project/xlb/internal/head"
)

// Response is the validated head of an endpoint's answer, and its body as a stream.
type Response struct {
	// Status is 100 to 999.
	Status int
	// Reason is the text behind the status, possibly empty.
	Reason string
	// HTTP10: the version is 1.0.
	HTTP10 bool
	// Fields lie in the reader's buffer: they are valid until it reads the next head or is released.
	Fields []head.Field
	// Length is the Content-Length in bytes, or head.NoLength.
	Length int64
	// Chunked: the body has chunks.
	Chunked bool
	// KeepAlive: the endpoint serves further requests on its connection.
	KeepAlive bool
	// Body ends with a bare io.EOF where the framing says so, and in no other way. nil: there is no body.
	Body io.Reader
}

// errMalformed is a response that is no HTTP/1.1, or not framed beyond doubt.
var errMalformed = errors.New("response of the endpoint is malformed, which RFC 9112 makes a 502; the endpoint must be repaired")

// Malformed returns an error that IsProtocolError knows. what names the part of the response that is at fault.
func Malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }

// IsProtocolError tells an endpoint that does not speak HTTP from a connection that has failed.
func IsProtocolError(err error) bool {
	return errors.Is(err, errMalformed) || errors.Is(err, chunked.ErrMalformed)
}

// parseResponse validates a complete head that head.Scan has passed. The method is that of the request, which decides on the
// framing (RFC 9112 section 6.3). fields is appended to.
func parseResponse(raw []byte, method string, fields []head.Field, maxFields int) (*Response, error) {
	r := &Response{Length: head.NoLength}
	line, rest, ok := head.CutLine(raw)
	if !ok || !r.parseStatusLine(line) {
		return nil, Malformed("status line")
	}
	fields, refusal := head.ParseFields(rest, fields, maxFields)
	if refusal != nil {
		return nil, Malformed("fields, or more than " + strconv.Itoa(maxFields) + " of them")
	}
	r.Fields = fields
	r.KeepAlive = r.persists()
	if method == http.MethodConnect && r.Status/100 == 2 {
		return r, nil // framing of a success means nothing (RFC 9110 section 9.3.6)
	}
	return r, r.frame()
}

// parseStatusLine reads "version SP status [SP reason]". RFC 9112 section 4 wants the second space, many endpoints omit it.
func (r *Response) parseStatusLine(line []byte) bool {
	const version, code = len("HTTP/1.1 "), len("200")
	if len(line) < version+code || len(line) > version+code && line[version+code] != ' ' {
		return false
	}
	switch string(line[:version]) {
	case "HTTP/1.1 ":
	case "HTTP/1.0 ":
		r.HTTP10 = true
	default:
		return false
	}
	n, ok := head.ParseLength(line[version : version+code])
	r.Status = int(n)
	r.Reason = strings.TrimPrefix(string(line[version+code:]), " ")
	return ok && r.Status >= http.StatusContinue
}

// persists follows RFC 9112 section 9.3.
func (r *Response) persists() bool {
	isClose, isKeepAlive := false, false
	for _, f := range r.Fields {
		if f.Is("connection") {
			isClose = isClose || f.HasToken("close")
			isKeepAlive = isKeepAlive || f.HasToken("keep-alive")
		}
	}
	return !isClose && (!r.HTTP10 || isKeepAlive)
}

// frame reads what declares the body's length. A second declaration is refused even if it says the same, as by Envoy.
func (r *Response) frame() error {
	declared := 0
	for _, f := range r.Fields {
		switch {
		case f.Is("content-length"):
			declared++
			n, ok := head.ParseLength(f.Value)
			if !ok {
				return Malformed("Content-Length")
			}
			r.Length = n
		case f.Is("transfer-encoding"):
			declared++
			if !ascii.EqualFold(f.Value, "chunked") {
				return Malformed("transfer coding other than chunked")
			}
			r.Chunked = true
		}
	}
	switch {
	case declared > 1:
		return Malformed("more than one Content-Length or Transfer-Encoding")
	case r.Chunked && r.HTTP10:
		return Malformed("Transfer-Encoding on HTTP/1.0")
	case r.Chunked && head.FramingTrailer(r.Fields) != "":
		return Malformed("Trailer announces a field that frames")
	case r.bodiless() && (r.Chunked || r.Length > 0):
		return Malformed("body declared for a status without one")
	}
	return nil
}

// bodiless reports a status that must not declare a body (RFC 9110 section 8.6, RFC 9112 section 6.1); Envoy lets a length of 0 pass.
func (r *Response) bodiless() bool {
	return r.Status < http.StatusOK || r.Status == http.StatusNoContent
}

// interim reports a response behind which another one comes. 101 ends HTTP.
func (r *Response) interim() bool {
	return r.Status < http.StatusOK && r.Status != http.StatusSwitchingProtocols
}

// Upgrade returns the protocols that a 101 switches to (its Upgrade field), or "".
func (r *Response) Upgrade() string { return strings.Join(head.Values(r.Fields, "upgrade"), ", ") }

// Trailer returns the trailers of a body that has been read, as lines.
func (r *Response) trailer() []byte {
	return trailerOf(r.Body)
}
