// SPDX-License-Identifier: Apache-2.0

// Package opening tells by the first bytes of a connection what it carries: TLS, with the server's name and the protocols that the client asks for (RFC
// 8446), or a version of HTTP. Envoy's tls_inspector and http_inspector do the same.
package opening

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// errRead ends a handshake whose hello has been read.
var errRead = errors.New("the ClientHello has been read")

// Of returns what the first bytes of a connection say of it, as far as the inspection asks, and nil while more bytes are needed. b begins with the bytes
// of the call before; hello belongs to the connection, and is zero at first. Bytes that are neither of TLS nor of HTTP make an empty Opening, and so do
// more than limits.Opening.BodyBytes.
func Of(i *model.Inspection, b []byte, hello *Hello) *model.Opening {
	if len(b) > limits.Opening.BodyBytes || !i.TLS && !i.HTTP {
		return &model.Opening{}
	}
	if len(b) == 0 {
		return nil
	}
	if i.TLS && b[0] == recordHandshake {
		if !hello.isWhole(b) {
			return nil
		}
		opening, known := tlsOpening(b)
		if !known || opening != nil {
			return opening
		}
	}
	if !i.HTTP {
		return &model.Opening{}
	}
	return httpOpening(b)
}

// recordHandshake is the type of a TLS record that holds a handshake.
const recordHandshake = 22

// Hello follows the records of a ClientHello, each once: a client may send it byte by byte, and parse it from the beginning with each
// would take seconds (RFC 8446, sections 4 and 5.1).
type Hello struct {
	// next is where the next record begins, got how many bytes of the message the records before have.
	next, got int
	header    []byte
}

const recordHeader, messageHeader, helloType = 5, 4, 1

// isWhole reports whether b holds all of the message, or something else than one. b begins as in the call before.
func (f *Hello) isWhole(b []byte) bool {
	if len(b) > 1 && b[1] != 3 {
		return true
	}
	for f.next+recordHeader <= len(b) {
		begin := f.next + recordHeader
		end := begin + int(binary.BigEndian.Uint16(b[f.next+3:]))
		if b[f.next] != recordHandshake || end == begin {
			return true
		}
		if end > len(b) {
			return false
		}
		f.header = append(f.header, b[begin:min(end, begin+messageHeader-len(f.header))]...)
		f.next, f.got = end, f.got+end-begin
		if len(f.header) < messageHeader {
			continue
		}
		if size := int(f.header[1])<<16 | int(f.header[2])<<8 | int(f.header[3]); f.header[0] != helloType || messageHeader+size <= f.got || size > limits.Opening.BodyBytes {
			return true
		}
	}
	return false
}

// tlsOpening reads a ClientHello. known and nil: it is none.
func tlsOpening(b []byte) (o *model.Opening, known bool) {
	if len(b) > 1 && b[1] != 3 {
		return nil, true
	}
	hello := &helloReader{b: b}
	var info *tls.ClientHelloInfo
	// It reads the hello, and then fails: nobody is to be answered.
	err := tls.Server(hello, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		info = h
		return nil, errRead
	}}).HandshakeContext(context.Background())
	switch {
	case info != nil:
		return &model.Opening{TLS: true, ServerName: ascii.Lower(info.ServerName), Protocols: slices.Clone(info.SupportedProtos)}, true
	case hello.short && len(b) < limits.Opening.BodyBytes:
		return nil, false
	case err != nil:
		return nil, true
	}
	return nil, true
}

// helloReader is a connection from which a few bytes have come.
type helloReader struct {
	b []byte
	// short: more was asked for.
	short bool
}

func (r *helloReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		r.short = true
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}

func (r *helloReader) Write(p []byte) (int, error)      { return len(p), nil }
func (r *helloReader) Close() error                     { return nil }
func (r *helloReader) LocalAddr() net.Addr              { return nil }
func (r *helloReader) RemoteAddr() net.Addr             { return nil }
func (r *helloReader) SetDeadline(time.Time) error      { return nil }
func (r *helloReader) SetReadDeadline(time.Time) error  { return nil }
func (r *helloReader) SetWriteDeadline(time.Time) error { return nil }

// preface begins HTTP/2 (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// httpOpening tells the version of HTTP by the request line, as Envoy's http_inspector does. nil: the line has not ended.
func httpOpening(b []byte) *model.Opening {
	if n := min(len(b), len(preface)); string(b[:n]) == preface[:n] {
		if n < len(preface) {
			return nil
		}
		return &model.Opening{Protocols: []string{model.ProtocolHTTP2}}
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if !mayBeRequestLine(line) {
		return &model.Opening{}
	}
	if !whole {
		return nil
	}
	return &model.Opening{Protocols: versionOf(strings.TrimSuffix(string(line), "\r"))}
}

// mayBeRequestLine reports whether a beginning of a line has nothing yet that a method cannot have. Envoy would wait for the line's end.
func mayBeRequestLine(line []byte) bool {
	method, _, _ := bytes.Cut(line, []byte(" "))
	return len(method) <= maxMethod && !slices.ContainsFunc(bytes.TrimSuffix(method, []byte("\r")), func(c byte) bool { return !tokenByte(c) })
}

// maxMethod is longer than any method.
const maxMethod = 256

func tokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 && c != 0
}

// versionOf is the application protocol of a request line, none where it is no such line. As in Envoy whatever is not HTTP/1.1 counts as 1.0,
// lines without a version too.
func versionOf(line string) []string {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(strings.Trim(rest, " "), " ")
	version = strings.TrimLeft(version, " ")
	switch {
	case method == "" || !mayBeTarget(target, method == "CONNECT"):
		return nil
	case version == "HTTP/1.1":
		return []string{model.ProtocolHTTP11}
	case version == "" || isVersion(version):
		return []string{model.ProtocolHTTP10}
	}
	return nil
}

func isVersion(s string) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	return len(s) == len("HTTP/1.1") && strings.HasPrefix(s, "HTTP/") && digit(s[5]) && s[6] == '.' && digit(s[7])
}

// mayBeTarget reports whether a request can ask for it.
func mayBeTarget(s string, connect bool) bool {
	if connect {
		return s != ""
	}
	scheme, rest, absolute := strings.Cut(s, "://")
	return s != "" && (s[0] == '/' || s[0] == '*' || absolute && scheme != "" && rest != "")
}
