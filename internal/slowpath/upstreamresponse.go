// SPDX-License-Identifier: Apache-2.0

package slowpath

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

// response is a validated head of an endpoint's answer, and its body as a stream.
type response struct {
	// status is 100 to 999, reason what stands behind it, possibly empty.
	status int
	reason string
	http10 bool
	// fields lie in the reader's buffer: they are valid until it reads the next head or is released.
	fields []field
	// length is the Content-Length, or head.NoLength.
	length  int64
	chunked bool
	// keepAlive: the endpoint serves further requests on its connection.
	keepAlive bool
	// body ends with a bare io.EOF where the framing says so, and in no other way. nil: there is none.
	body io.Reader
}

// errMalformed is a response that is no HTTP/1.1, or not framed beyond doubt.
var errMalformed = errors.New("response of the endpoint is malformed, which RFC 9112 makes a 502; the endpoint must be repaired")

func malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }

// isProtocolError tells an endpoint that does not speak HTTP from a connection that has failed.
func isProtocolError(err error) bool {
	return errors.Is(err, errMalformed) || errors.Is(err, chunked.ErrMalformed)
}

// parseResponse validates a complete head that scanHead has passed. The method is that of the request, which decides on the
// framing (RFC 9112 section 6.3). fields is appended to.
func parseResponse(raw []byte, method string, fields []field, maxFields int) (*response, error) {
	r := &response{length: head.NoLength}
	line, rest, ok := head.CutLine(raw)
	if !ok || !r.parseStatusLine(line) {
		return nil, malformed("status line")
	}
	fields, refusal := head.ParseFields(rest, fields, maxFields)
	if refusal != nil {
		return nil, malformed("fields, or more than " + strconv.Itoa(maxFields) + " of them")
	}
	r.fields = fields
	r.keepAlive = r.persists()
	if method == http.MethodConnect && r.status/100 == 2 {
		return r, nil // framing of a success means nothing (RFC 9110 section 9.3.6)
	}
	return r, r.frame()
}

// parseStatusLine reads "version SP status [SP reason]". RFC 9112 section 4 wants the second space, many endpoints omit it.
func (r *response) parseStatusLine(line []byte) bool {
	const version, code = len("HTTP/1.1 "), len("200")
	if len(line) < version+code || len(line) > version+code && line[version+code] != ' ' {
		return false
	}
	switch string(line[:version]) {
	case "HTTP/1.1 ":
	case "HTTP/1.0 ":
		r.http10 = true
	default:
		return false
	}
	n, ok := head.ParseLength(line[version : version+code])
	r.status = int(n)
	r.reason = strings.TrimPrefix(string(line[version+code:]), " ")
	return ok && r.status >= http.StatusContinue
}

// persists follows RFC 9112 section 9.3.
func (r *response) persists() bool {
	isClose, isKeepAlive := false, false
	for _, f := range r.fields {
		if f.Is("connection") {
			isClose = isClose || f.HasToken("close")
			isKeepAlive = isKeepAlive || f.HasToken("keep-alive")
		}
	}
	return !isClose && (!r.http10 || isKeepAlive)
}

// frame reads what declares the body's length. A second declaration is refused even if it says the same, as by Envoy.
func (r *response) frame() error {
	declared := 0
	for _, f := range r.fields {
		switch {
		case f.Is("content-length"):
			declared++
			n, ok := head.ParseLength(f.Value)
			if !ok {
				return malformed("Content-Length")
			}
			r.length = n
		case f.Is("transfer-encoding"):
			declared++
			if !ascii.EqualFold(f.Value, "chunked") {
				return malformed("transfer coding other than chunked")
			}
			r.chunked = true
		}
	}
	switch {
	case declared > 1:
		return malformed("more than one Content-Length or Transfer-Encoding")
	case r.chunked && r.http10:
		return malformed("Transfer-Encoding on HTTP/1.0")
	case r.chunked && head.FramingTrailer(r.fields) != "":
		return malformed("Trailer announces a field that frames")
	case r.bodiless() && (r.chunked || r.length > 0):
		return malformed("body declared for a status without one")
	}
	return nil
}

// bodiless reports a status that must not declare a body (RFC 9110 section 8.6, RFC 9112 section 6.1); Envoy lets a length of 0 pass.
func (r *response) bodiless() bool {
	return r.status < http.StatusOK || r.status == http.StatusNoContent
}

// interim reports a response behind which another one comes. 101 ends HTTP.
func (r *response) interim() bool {
	return r.status < http.StatusOK && r.status != http.StatusSwitchingProtocols
}

// upgrade is what a 101 switches to, or empty.
func (r *response) upgrade() string { return strings.Join(head.Values(r.fields, "upgrade"), ", ") }

// trailer returns the trailers of a body that has been read, as lines.
func (r *response) trailer() []byte {
	return trailerOf(r.body)
}
