// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// errNoChain says that a listener has nothing for what a connection's first bytes are.
var errNoChain = errors.New("no filter chain matches the connection")

// chosen finds what serves a connection: a TCP proxy, which also sends on the bytes that have been read, or nil: the listener's routes. A connection that
// has carried requests stays one of HTTP, whatever has become of its listener.
func (p *Proxy) chosen(d *downstream) (*model.TCPProxy, []byte, error) {
	s := &d.session
	if s.Requests > 0 || s.Begun != nil {
		return nil, nil, nil
	}
	if proxy := p.config.tcp(s.Listener); proxy != nil {
		return proxy, nil, nil
	}
	if p.config.Inspection == nil {
		return nil, nil, nil
	}
	i := p.config.Inspection(s.Listener)
	if i == nil {
		return nil, nil, nil
	}
	opening, err := d.inspect(i)
	if err != nil {
		return nil, nil, err
	}
	proxy, http := i.Serves(opening)
	switch {
	case http:
		return nil, nil, nil
	case proxy == nil:
		return nil, nil, errNoChain
	}
	return proxy, *d.head, nil
}

// errSilent says that a client has not shown in time what it is.
var errSilent = errors.New("the connection does not begin with what a filter chain is chosen by (listener_filters_timeout)")

// inspect reads until it is known what the connection is, or the time for that is up. What it reads begins the first head.
func (d *downstream) inspect(i *model.Inspection) (*model.Opening, error) {
	late := func() (*model.Opening, error) {
		if !i.Continue {
			return nil, errSilent
		}
		return &model.Opening{}, nil
	}
	if i.Timeout > 0 {
		end := d.session.Opened.Add(i.Timeout)
		if !time.Now().Before(end) {
			return late()
		}
		if err := d.conn.SetReadDeadline(end); err != nil {
			return nil, err
		}
		defer func() { _ = d.conn.SetReadDeadline(time.Time{}) }()
	}
	var hello helloFrame
	for {
		if opening := openingOf(i, *d.head, &hello); opening != nil {
			return opening, nil
		}
		err := d.fill()
		switch {
		case i.Timeout > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			return late()
		case err != nil:
			return nil, err
		}
	}
}

// openingOf is nil while more bytes are needed.
func openingOf(i *model.Inspection, b []byte, hello *helloFrame) *model.Opening {
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

// helloFrame follows the records of a ClientHello, each once: a client may send it byte by byte, and parse it from the beginning with each
// would take seconds (RFC 8446, sections 4 and 5.1).
type helloFrame struct {
	// next is where the next record begins, got how many bytes of the message the records before have.
	next, got int
	header    []byte
}

const recordHeader, messageHeader, helloType = 5, 4, 1

// isWhole reports whether there is all of the message, or something that is none. b begins as in the call before.
func (f *helloFrame) isWhole(b []byte) bool {
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
		return nil, errNoChain
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
