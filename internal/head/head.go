// SPDX-License-Identifier: Apache-2.0

package head

import (
	"bytes"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
)

// NoLength is the content length of a head that declares none.
const NoLength = -1

// Head is that of a request, validated. Its slices point into the raw bytes and are valid as long as those are.
type Head struct {
	Method string
	// Target as it stands in the request line.
	Target string
	// Authority is the target's, else the Host field's; empty only on HTTP/1.0.
	Authority string
	// Path is the target in origin form with its query, "*", or empty for CONNECT.
	Path string
	// Scheme of a target in absolute form, as written; empty for the other forms.
	Scheme string
	HTTP10 bool
	Fields []Field
	// Length is the Content-Length, or NoLength.
	Length    int64
	Chunked   bool
	KeepAlive bool
	// ExpectContinue is set when the client waits for 100 (Continue).
	ExpectContinue bool
	// Upgrade is set when the client asks for another protocol, h2c excepted, and Protocol is the whole value of the Upgrade field
	// then.
	Upgrade  bool
	Protocol string
}

// Connect reports a CONNECT request: its target is an authority, and no HTTP follows it.
func (h *Head) Connect() bool { return h.Method == http.MethodConnect }

// Values returns a field's values by its lower-case name, for routing. "host" is the authority, as in Envoy.
func (h *Head) Values(name string) []string {
	if name == "host" {
		if h.Authority == "" {
			return nil
		}
		return []string{h.Authority}
	}
	return Values(h.Fields, name)
}

// Scan looks for the empty line that ends a head, in raw from offset from on (bytes before it have been scanned). It returns the offset
// behind that line, or 0 while the head is incomplete. ok is false as soon as no continuation can make the bytes a valid head, so that a
// client that waits after a bare LF, or speaks TLS, is answered at once.
func Scan(raw []byte, from int) (end int, ok bool) {
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
		if c != '\r' && !IsValueByte(c) {
			return 0, false
		}
	}
	return 0, true
}

// Parse validates a complete head, empty line included, per RFC 9112; it may have maxFields fields. A head that must not pass comes with
// its refusal, and as much of it as was read.
func Parse(raw []byte, maxFields int) (Head, *Refusal) {
	h := Head{Length: NoLength}
	line, rest, ok := CutLine(raw)
	if !ok {
		return h, malformed("the request line does not end with CR LF")
	}
	if refusal := h.parseRequestLine(line); refusal != nil {
		return h, refusal
	}
	var refusal *Refusal
	if h.Fields, refusal = ParseFields(rest, make([]Field, 0, 16), maxFields); refusal != nil {
		return h, refusal
	}
	return h, h.interpret()
}

// parseRequestLine reads "method SP target SP version" (RFC 9112 section 3).
func (h *Head) parseRequestLine(line []byte) *Refusal {
	method, rest, ok1 := bytes.Cut(line, []byte{' '})
	target, version, ok2 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || len(target) == 0 {
		return malformed("request line %q: want method, target and version", line)
	}
	if refusal := checkMethod(method); refusal != nil {
		return refusal
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.HTTP10 = true
	default:
		return malformed("version %q: want HTTP/1.1", version)
	}
	for _, c := range target {
		// A fragment is never part of a request target; Envoy refuses it too.
		if c <= ' ' || c > '~' || c == '#' {
			return malformed("target %q: want printable ASCII without a fragment", target)
		}
	}
	h.Method, h.Target = string(method), string(target)
	return h.parseTarget()
}

// parseTarget sorts the four forms of a target (RFC 9112 section 3.2).
func (h *Head) parseTarget() *Refusal {
	switch {
	case h.Connect():
		return h.parseAuthority()
	case h.Target[0] == '/':
		h.Path = h.Target
	case h.Target == "*":
		if h.Method != http.MethodOptions {
			return malformed("target *: is for OPTIONS alone")
		}
		h.Path = h.Target
	default:
		return h.parseAbsolute()
	}
	return nil
}

// parseAuthority reads the target of CONNECT, a host and a port (RFC 9110 section 9.3.6).
func (h *Head) parseAuthority() *Refusal {
	host, port, err := net.SplitHostPort(h.Target)
	n, ok := ParseLength([]byte(port))
	if err != nil || host == "" || !IsAuthority(h.Target) || !ok || n > math.MaxUint16 {
		return malformed("CONNECT to %q: want host:port", h.Target)
	}
	h.Authority = h.Target
	return nil
}

func (h *Head) parseAbsolute() *Refusal {
	scheme, rest, ok := strings.Cut(h.Target, "://")
	if !ok || !ascii.EqualFold(scheme, "http") && !ascii.EqualFold(scheme, "https") {
		return malformed("target %q: want a path, or a URL of http or https", h.Target)
	}
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		i = len(rest)
	}
	h.Scheme, h.Authority, h.Path = scheme, rest[:i], rest[i:]
	if !strings.HasPrefix(h.Path, "/") {
		h.Path = "/" + h.Path
	}
	return checkHost(h.Authority)
}

func checkHost[T string | []byte](text T) *Refusal {
	if !IsAuthority(text) {
		return malformed("host %q: want a name or an address, and a port", text)
	}
	return nil
}

// declared counts the fields of which a head may have one, or none.
type declared struct{ hosts, lengths, codings int }

// interpret draws framing, authority and persistence from the fields.
func (h *Head) interpret() *Refusal {
	var n declared
	isClose, isKeepAlive, isUpgrade := false, false, false
	var protocols []string
	for _, f := range h.Fields {
		switch {
		case f.Is("host"), f.Is("content-length"), f.Is("transfer-encoding"):
			if refusal := h.declare(f, &n); refusal != nil {
				return refusal
			}
		case f.Is("connection"):
			isClose = isClose || f.HasToken("close")
			isKeepAlive = isKeepAlive || f.HasToken("keep-alive")
			isUpgrade = isUpgrade || f.HasToken("upgrade")
		case f.Is("upgrade"):
			protocols = append(protocols, string(f.Value))
		case f.Is("expect"):
			h.ExpectContinue = ascii.EqualFold(f.Value, "100-continue") && !h.HTTP10
		}
	}
	h.KeepAlive = !isClose && (!h.HTTP10 || isKeepAlive)
	h.Protocol = strings.Join(slices.DeleteFunc(protocols, func(p string) bool { return p == "" }), ",")
	h.Upgrade = protocols != nil && isUpgrade && !ascii.EqualFold(h.Protocol, "h2c") && !h.HTTP10
	return h.checkWhole(&n)
}

// declare takes over what says whom a request is for, and where it ends.
func (h *Head) declare(f Field, n *declared) *Refusal {
	switch {
	case f.Is("host"):
		n.hosts++
		if h.Authority == "" {
			h.Authority = string(f.Value)
		}
		return checkHost(f.Value)
	case f.Is("content-length"):
		n.lengths++
		length, ok := ParseLength(f.Value)
		if !ok {
			return malformed("content-length %q: want a number", f.Value)
		}
		h.Length = length
	default:
		n.codings++
		if !ascii.EqualFold(f.Value, "chunked") {
			return notImplemented("transfer-encoding %q: only chunked is understood", f.Value)
		}
		h.Chunked = true
	}
	return nil
}

// checkWhole looks at what fields say together.
func (h *Head) checkWhole(n *declared) *Refusal {
	switch {
	case h.Connect() && h.Chunked:
		return notImplemented("CONNECT with a transfer-encoding")
	case h.Connect() && h.Length > 0:
		return malformed("CONNECT with a body") // it has no meaning (RFC 9110 section 9.3.6)
	case n.hosts > 1, n.hosts == 0 && !h.HTTP10:
		return malformed("%d fields Host: want one", n.hosts)
	}
	if refusal := checkOptions(h.Fields); refusal != nil {
		return refusal
	}
	if n.lengths+n.codings > 1 {
		return malformed("%d content-length and %d transfer-encoding: there may be one of both", n.lengths, n.codings)
	}
	if !h.Chunked {
		return nil
	}
	if h.HTTP10 {
		return malformed("transfer-encoding on HTTP/1.0")
	}
	if name := FramingTrailer(h.Fields); name != "" {
		return malformed("trailer announces %s, which frames the message", name)
	}
	return nil
}
