// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
)

// noLength is the content length of a head that declares none.
const noLength = -1

// field is one header field; both slices lie in the raw head.
type field struct{ name, value []byte }

// head is a validated request head. Its slices point into the raw bytes and are
// valid as long as those are.
type head struct {
	method string
	// target as it stands in the request line.
	target string
	// authority is the target's, else the Host field's; empty only on HTTP/1.0, until checkVersion().
	authority string
	// path is the target in origin form with its query, "*", or empty for CONNECT.
	path string
	// scheme of a target in absolute form, as written; empty for the other forms.
	scheme string
	http10 bool
	fields []field
	// length is the Content-Length, or noLength.
	length    int64
	chunked   bool
	keepAlive bool
	// expectContinue is set when the client waits for 100 (Continue).
	expectContinue bool
	// upgrade is set when the client asks for another protocol, h2c excepted,
	// and protocol is the whole value of the Upgrade field then.
	upgrade  bool
	protocol string
}

// connect reports a CONNECT request: its target is an authority, and no HTTP
// follows it.
func (h *head) connect() bool { return h.method == http.MethodConnect }

// scanHead looks for the empty line that ends a head, in raw from offset from
// on (bytes before it have been scanned). It returns the offset behind that
// line, or 0 while the head is incomplete. ok is false as soon as no
// continuation can make the bytes a valid head, so that a client that waits
// after a bare LF, or speaks TLS, is answered at once.
func scanHead(raw []byte, from int) (end int, ok bool) {
	for i := from; i < len(raw); i++ {
		c := raw[i]
		if c == '\n' {
			if i == 0 || raw[i-1] != '\r' {
				return 0, false
			}
			if i >= 3 && raw[i-2] == '\n' {
				return i + 1, true
			}
			continue
		}
		if i > 0 && raw[i-1] == '\r' {
			return 0, false
		}
		if c != '\r' && !validValueByte(c) {
			return 0, false
		}
	}
	return 0, true
}

// parseHead validates a complete head, empty line included, per RFC 9112. It
// returns the local reply for one that must not pass.
func parseHead(raw []byte, maxFields int) (head, LocalReply) {
	h := head{length: noLength}
	line, rest, ok := cutLine(raw)
	if !ok {
		return h, ReplyBadRequest
	}
	if reply := h.parseRequestLine(line); reply != noReply {
		return h, reply
	}
	var reply LocalReply
	if h.fields, reply = parseFields(rest, make([]field, 0, 16), maxFields); reply != noReply {
		return h, reply
	}
	return h, h.interpret()
}

// parseFields appends the fields of a head, whose empty line must end it.
func parseFields(rest []byte, fields []field, maxFields int) ([]field, LocalReply) {
	for {
		line, behind, ok := cutLine(rest)
		switch rest = behind; {
		case !ok, len(line) == 0 && len(rest) > 0:
			return nil, ReplyBadRequest
		case len(line) == 0:
			return fields, noReply
		case len(fields) == maxFields:
			return nil, ReplyHeadTooLarge
		}
		f, ok := parseField(line)
		if !ok {
			return nil, ReplyBadRequest
		}
		fields = append(fields, f)
	}
}

// cutLine splits at the first line end, which must be CRLF; no other CR or LF
// may precede it.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 || b[i] != '\r' || i+1 == len(b) || b[i+1] != '\n' {
		return nil, nil, false
	}
	return b[:i], b[i+2:], true
}

// parseRequestLine reads "method SP target SP version" (RFC 9112 section 3).
func (h *head) parseRequestLine(line []byte) LocalReply {
	method, rest, ok1 := bytes.Cut(line, []byte{' '})
	target, version, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || !validMethod(method) || len(target) == 0 {
		return ReplyBadRequest
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return ReplyBadRequest
	}
	for _, c := range target {
		// A fragment is never part of a request target; Envoy refuses it too.
		if c <= ' ' || c > '~' || c == '#' {
			return ReplyBadRequest
		}
	}
	h.method, h.target = string(method), string(target)
	return h.parseTarget()
}

// parseTarget sorts the four forms of a target (RFC 9112 section 3.2).
func (h *head) parseTarget() LocalReply {
	switch {
	case h.connect():
		return h.parseAuthority()
	case h.target[0] == '/':
		h.path = h.target
	case h.target == "*":
		if h.method != "OPTIONS" {
			return ReplyBadRequest
		}
		h.path = h.target
	default:
		return h.parseAbsolute()
	}
	return noReply
}

// parseAuthority reads the target of CONNECT, a host and a port
// (RFC 9110 section 9.3.6).
func (h *head) parseAuthority() LocalReply {
	host, port, err := net.SplitHostPort(h.target)
	if err != nil || host == "" || !validAuthority([]byte(h.target)) {
		return ReplyBadRequest
	}
	if n, ok := parseLength([]byte(port)); !ok || n > math.MaxUint16 {
		return ReplyBadRequest
	}
	h.authority = h.target
	return noReply
}

func (h *head) parseAbsolute() LocalReply {
	scheme, rest, ok := strings.Cut(h.target, "://")
	if !ok || !ascii.EqualFold(scheme, "http") && !ascii.EqualFold(scheme, "https") {
		return ReplyBadRequest
	}
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		i = len(rest)
	}
	h.scheme, h.authority, h.path = scheme, rest[:i], rest[i:]
	if !strings.HasPrefix(h.path, "/") {
		h.path = "/" + h.path
	}
	if !validAuthority([]byte(h.authority)) {
		return ReplyBadRequest
	}
	return noReply
}

// parseField reads "name: value" without white space before the colon
// (RFC 9112 section 5.1). A folded line fails, as its name is not a token.
func parseField(line []byte) (field, bool) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !validToken(name) {
		return field{}, false
	}
	for _, c := range value {
		if !validValueByte(c) {
			return field{}, false
		}
	}
	return field{name, bytes.Trim(value, " \t")}, true
}

// interpret draws framing, authority and persistence from the fields.
func (h *head) interpret() LocalReply {
	hosts, lengths, codings := 0, 0, 0
	isClose, isKeepAlive, isUpgrade := false, false, false
	var protocols []string
	for _, f := range h.fields {
		switch {
		case f.is("host"):
			hosts++
			if !validAuthority(f.value) {
				return ReplyBadRequest
			}
			if h.authority == "" {
				h.authority = string(f.value)
			}
		case f.is("content-length"):
			lengths++
			n, ok := parseLength(f.value)
			if !ok {
				return ReplyBadRequest
			}
			h.length = n
		case f.is("transfer-encoding"):
			codings++
			if !ascii.EqualFold(f.value, "chunked") {
				return ReplyNotImplemented
			}
			h.chunked = true
		case f.is("connection"):
			isClose = isClose || f.hasToken("close")
			isKeepAlive = isKeepAlive || f.hasToken("keep-alive")
			isUpgrade = isUpgrade || f.hasToken("upgrade")
		case f.is("upgrade"):
			protocols = append(protocols, string(f.value))
		case f.is("expect"):
			h.expectContinue = ascii.EqualFold(f.value, "100-continue") && !h.http10
		}
	}
	h.keepAlive = !isClose && (!h.http10 || isKeepAlive)
	h.protocol = strings.Join(slices.DeleteFunc(protocols, func(p string) bool { return p == "" }), ",")
	h.upgrade = protocols != nil && isUpgrade && !ascii.EqualFold(h.protocol, "h2c") && !h.http10
	switch {
	case h.connect() && h.chunked:
		return ReplyNotImplemented
	case h.connect() && h.length > 0:
		return ReplyBadRequest // its body has no meaning (RFC 9110 section 9.3.6)
	case hosts > 1, hosts == 0 && !h.http10, !optionsAllowed(h.fields):
		return ReplyBadRequest
	case lengths > 1, codings > 1, lengths+codings > 1:
		return ReplyBadRequest
	case h.chunked && (h.http10 || !trailersAllowed(h.fields)):
		return ReplyBadRequest
	}
	return noReply
}

// values returns a field's values by its lower-case name, for routing. "host" is the
// authority, as in Envoy.
func (h *head) values(name string) []string {
	if name == "host" {
		if h.authority == "" {
			return nil
		}
		return []string{h.authority}
	}
	return valuesOf(h.fields, name)
}

func (f field) is(name string) bool { return ascii.EqualFold(f.name, name) }

func (f field) hasToken(token string) bool {
	return httpguts.HeaderValuesContainsToken([]string{string(f.value)}, token)
}

// parseLength reads 1*DIGIT that fits an int64 (RFC 9110 section 8.6).
func parseLength(b []byte) (int64, bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return int64(n), err == nil && n <= math.MaxInt64
}

// validAuthority checks uri-host [":" port] by its characters (RFC 3986 section
// 3.2.2); user information is refused (RFC 9110 section 4.2.4).
func validAuthority(b []byte) bool {
	for _, c := range b {
		if !isAlphanumeric(c) && strings.IndexByte("-._~%!$&'()*+,;=:[]", c) < 0 {
			return false
		}
	}
	return len(b) > 0 && b[0] != ':'
}

// standardMethods are those of RFC 9110 section 9.3 and RFC 5789.
var standardMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch,
}

// validMethod reports a token that is no standard method in another case. Case matters (RFC 9110 section 9.1), but not to every server: one that takes
// "head" for HEAD sends no body where the proxy waits for one, and "post" would pass a route that is for others than POST. Envoy refuses
// them too.
func validMethod(b []byte) bool {
	upper := ascii.Upper(string(b))
	return validToken(b) && (string(b) == upper || !slices.Contains(standardMethods, upper))
}

// validToken reports a token (RFC 9110 section 5.6.2).
func validToken(b []byte) bool {
	for _, c := range b {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(b) > 0
}

// validValueByte: field-vchar, SP or HTAB (RFC 9110 section 5.5).
func validValueByte(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
