// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"slices"
	"strings"
)

// PathRule says how a request's path is changed before it is matched and sent on
// (HttpConnectionManager.normalize_path and its kin). The query stays as it is. The zero
// value changes nothing.
type PathRule struct {
	// EscapedSlashes is about "%2f" and "%5c"; it comes first.
	EscapedSlashes EscapedSlashes
	// Normalize makes paths that mean the same the same (normalize_path); see canonicalPath.
	Normalize bool
	// MergeSlashes makes one "/" of several (merge_slashes); it comes last.
	MergeSlashes bool
}

// EscapedSlashes is HttpConnectionManager.PathWithEscapedSlashesAction.
type EscapedSlashes uint8

const (
	// KeepSlashes is KEEP_UNCHANGED, which is also IMPLEMENTATION_SPECIFIC_DEFAULT.
	KeepSlashes EscapedSlashes = iota
	// RejectSlashes is REJECT_REQUEST.
	RejectSlashes
	// RedirectSlashes is UNESCAPE_AND_REDIRECT.
	RedirectSlashes
	// ForwardSlashes is UNESCAPE_AND_FORWARD.
	ForwardSlashes
)

// PathOutcome is what becomes of a request by its path.
type PathOutcome uint8

const (
	// PathTaken: the request goes on with the path.
	PathTaken PathOutcome = iota
	// PathRefused: the request is answered 400.
	PathRefused
	// PathRedirected: the client is sent to the path, by 307.
	PathRedirected
)

// Apply returns a request target in origin form as routes and endpoints see it. Other
// forms have no path to change.
func (p PathRule) Apply(target string) (string, PathOutcome) {
	if p == (PathRule{}) || !strings.HasPrefix(target, "/") {
		return target, PathTaken
	}
	path, _, _ := strings.Cut(target, "?")
	query := target[len(path):]
	outcome := PathTaken
	if unescaped := slashes.Replace(path); p.EscapedSlashes != KeepSlashes && unescaped != path {
		switch p.EscapedSlashes {
		case RejectSlashes:
			return target, PathRefused
		case RedirectSlashes:
			outcome = PathRedirected
		}
		path = unescaped
	}
	if p.Normalize {
		canonical, ok := canonicalPath(path)
		if !ok {
			return target, PathRefused
		}
		path = canonical
	}
	if p.MergeSlashes {
		path = merged(path)
	}
	if outcome == PathRedirected {
		path = OnThisHost(path)
	}
	return path + query, outcome
}

// OnThisHost makes a path one that a client cannot take for another host's, as the whole of a Location: "//host" is a host without a scheme (RFC 3986
// section 4.2), and browsers read "\" as "/". Envoy sends such a client there.
func OnThisHost(path string) string {
	return "/" + strings.TrimLeft(path, `/\`)
}

var slashes = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`)

// merged drops empty segments but the last. As in Envoy nothing but slashes becomes "//".
func merged(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	isSlash := func(c rune) bool { return c == '/' }
	out := "/" + strings.Join(strings.FieldsFunc(path, isSlash), "/")
	if strings.HasSuffix(path, "/") {
		out += "/"
	}
	return out
}

// canonicalPath resolves segments "." and "..", decodes escapes of unreserved characters
// (RFC 3986 section 6.2.2), makes "/" of "\", and escapes what RFC 3986 does not allow in a path. Other escapes
// stay as they are. It is Envoy's, measured: the path of Chromium's URLs, and in front of that "." and ".." lose
// their parameters. ok is false for a path with a "%00".
func canonicalPath(path string) (canonical string, ok bool) {
	if !strings.ContainsAny(path, uncanonical) && !strings.Contains(path, "/.") {
		return path, true
	}
	c := canonicalizer{out: make([]byte, 0, len(path)), percent: -1}
	for rest := WithoutParameters(path, isDots); rest != ""; {
		n := c.next(rest)
		if n == 0 {
			return "", false
		}
		rest = rest[n:]
	}
	return string(c.out), true
}

// escaped are the characters that a request target may have and RFC 3986 does not allow in a path, but "[" and "]".
const escaped = "\"<>^`{|}"

// uncanonical are the characters that canonicalPath may change, besides dots.
const uncanonical = escaped + `\%`

func isDots(segment string) bool { return segment == "." || segment == ".." }

// canonicalizer is a path in the making.
type canonicalizer struct {
	out []byte
	// percent is where out has the last "%" that begins no escape; negative: none.
	percent int
}

// next takes what the rest of a path begins with, and returns its length; 0: it must not be taken.
func (c *canonicalizer) next(rest string) int {
	if n := dotLength(rest); n > 0 {
		return c.dot(rest, n)
	}
	switch b := rest[0]; {
	case b == '%':
		return c.escape(rest)
	case b == '\\':
		c.out = append(c.out, '/')
	case strings.IndexByte(escaped, b) >= 0:
		c.out = fmt.Appendf(c.out, "%%%02X", b)
	default:
		c.out = append(c.out, b)
	}
	return 1
}

// dot takes a dot of n bytes: a segment of one or two with the slash behind it, or the dot alone.
func (c *canonicalizer) dot(rest string, n int) int {
	if c.out[len(c.out)-1] == '/' {
		if end, ends := segmentEnd(rest[n:]); ends {
			return n + end
		}
		second := dotLength(rest[n:])
		if end, ends := segmentEnd(rest[n+second:]); second > 0 && ends {
			c.up()
			return n + second + end
		}
	}
	c.out = append(c.out, '.')
	return n
}

// up drops the last segment. Nothing is above the root.
func (c *canonicalizer) up() {
	if last := strings.LastIndexByte(string(c.out[:len(c.out)-1]), '/'); last >= 0 {
		c.out = c.out[:last+1]
	}
	if c.percent >= len(c.out) {
		c.percent = -1
	}
}

// dotLength is the length of the dot, plain or escaped, that a text begins with; 0: it begins with none.
func dotLength(text string) int {
	switch {
	case strings.HasPrefix(text, "."):
		return 1
	case strings.HasPrefix(text, "%2e"), strings.HasPrefix(text, "%2E"):
		return 3
	}
	return 0
}

// segmentEnd reports whether a segment ends where a text begins, and the length of the slash that ends it.
func segmentEnd(text string) (length int, ends bool) {
	if text == "" {
		return 0, true
	}
	isSlash := text[0] == '/' || text[0] == '\\'
	return 1, isSlash
}

// escape takes a "%", with its digits where it has any.
func (c *canonicalizer) escape(rest string) int {
	if len(rest) < 3 || !isHex(rest[1]) || !isHex(rest[2]) {
		c.percent = len(c.out)
		c.out = append(c.out, '%')
		return 1
	}
	switch b := unhex(rest[1])<<4 | unhex(rest[2]); {
	case b == 0:
		return 0
	case isUnreserved(b):
		c.unescape(b, rest[3:])
	default:
		c.out = append(c.out, rest[:3]...)
	}
	return 3
}

// unescape adds a byte that was escaped. Where it would turn a "%" that began no escape into one, that is escaped:
// decoded twice, a path must not become another.
func (c *canonicalizer) unescape(b byte, rest string) {
	c.out = append(c.out, b)
	if c.percent < 0 || len(c.out) > c.percent+3 {
		return
	}
	digits := string(c.out[c.percent+1:])
	if len(digits) == 1 {
		digits += rest[:min(1, len(rest))]
	}
	if len(digits) == 2 && isHex(digits[0]) && isHex(digits[1]) {
		c.out = slices.Insert(c.out, c.percent+1, '2', '5')
	}
}

func isHex(b byte) bool { return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f' }

func unhex(b byte) byte {
	if b <= '9' {
		return b - '0'
	}
	return b | 0x20 - 'a' + 10
}

// isUnreserved is RFC 3986 section 2.3.
func isUnreserved(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || strings.IndexByte("-._~", b) >= 0
}

// WithoutParameters cuts segments of a path at their first ";": those with a name before it for which isCut holds.
func WithoutParameters(path string, isCut func(name string) bool) string {
	if !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, _, _ := strings.Cut(s, ";"); isCut(name) {
			segments[i] = name
		}
	}
	return strings.Join(segments, "/")
}
