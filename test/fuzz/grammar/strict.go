// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Message is what some bytes begin with.
type Message struct {
	// Method and Target of a request, and what it is for by both the target and Host (RFC 9112, section 3.3).
	Method, Target, Host, Path string
	// Status of a response.
	Status int
	// Length is the Content-Length, -1 where there is none.
	Length  int64
	Chunked bool
	Body    string
	// Head and End are offsets behind the head, and behind the message. End counts for a whole message only.
	Head, End int
	// UntilClose: the body of a response ends with its connection.
	UntilClose bool
}

// Outcome of a reading.
type Outcome uint8

const (
	// Refused: no message begins so.
	Refused Outcome = iota
	// Partial: the bytes end before the head does, or before the body.
	Partial
	// Whole message.
	Whole
)

// The rules of RFC 9110, section 5, and RFC 9112, sections 2 to 7, as expressions over bytes. They are another way to write a reader than that
// of the two that are held to them.
const (
	token     = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
	text      = `[\t\x20-\x7e\x{80}-\x{ff}]*`
	fieldLine = token + `:` + text + `\r\n`
	authority = `[\-._~%!$&'()*+,;=\[\]0-9A-Za-z][\-._~%!$&'()*+,;=:\[\]0-9A-Za-z]*`
	qdtext    = `[\t \x21\x23-\x5b\x5d-\x7e\x{80}-\x{ff}]`
	quoted    = `"(?:` + qdtext + `|\\[\t\x20-\x7e\x{80}-\x{ff}])*"`
	// sizeEnd lets whitespace stand behind a size without an extension, too, which the letter does not: XLB takes it, as Envoy and nginx do, and
	// does not pass it on.
	// An extension may be empty, likewise.
	sizeEnd   = `(?:` + extension + `)*[ \t]*\r\n`
	extension = `[ \t]*;(?:[ \t]*` + token + `(?:[ \t]*=[ \t]*(?:` + token + `|` + quoted + `))?)?`
)

var (
	requestHead  = regexp.MustCompile(`^(?:\r\n)*(` + token + `) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])\r\n((?:` + fieldLine + `)*)\r\n`)
	responseHead = regexp.MustCompile(`^HTTP/1\.([01]) ([1-9][0-9][0-9])(?: ` + text + `)?\r\n((?:` + fieldLine + `)*)\r\n`)
	absoluteForm = regexp.MustCompile(`^(?i:https?)://(` + authority + `)((?:/[^?]*)?(?:\?.*)?)$`)
	hostAlone    = regexp.MustCompile(`^` + authority + `$`)
	digits       = regexp.MustCompile(`^[0-9]+$`)
	sizeLine     = regexp.MustCompile(`^([0-9A-Fa-f]+)` + sizeEnd)
	trailerLines = regexp.MustCompile(`^(?:` + fieldLine + `)*`)
)

// ReadRequest reads strictly: what has several lengths, or one that is not a number of digits, is refused, and so is what has a transfer coding
// other than one "chunked". Empty lines before a request are skipped (RFC 9112, section 2.2).
func ReadRequest(raw []byte) (Message, Outcome) {
	m, bytes := Message{Length: -1}, latin1(raw)
	part := requestHead.FindStringSubmatch(bytes)
	if part == nil {
		return m, headless(bytes)
	}
	m.Method, m.Target, m.Head = part[1], part[2], utf8.RuneCountInString(part[0])
	fields := fieldsOf(part[4])
	if !m.frame(fields, part[3] == "0") || !m.address(fields, part[3] == "0") {
		return Message{}, Refused
	}
	if m.Length < 0 && !m.Chunked {
		m.End = m.Head
		return m, Whole
	}
	return m, m.readBody(raw)
}

// ReadResponse reads an answer to a request of that method. The body of one that has no length is all that there is.
func ReadResponse(raw []byte, method string) (Message, Outcome) {
	m, bytes := Message{Length: -1}, latin1(raw)
	part := responseHead.FindStringSubmatch(bytes)
	if part == nil {
		return m, headless(bytes)
	}
	m.Status, _ = strconv.Atoi(part[2]) // three digits
	m.Head = utf8.RuneCountInString(part[0])
	if !m.frame(fieldsOf(part[3]), part[1] == "0") {
		return Message{}, Refused
	}
	switch {
	case m.Status < 200, m.Status == 204, m.Status == 304, method == http.MethodHead:
		m.End = m.Head
		return m, Whole
	case m.Length < 0 && !m.Chunked:
		m.UntilClose, m.Body, m.End = true, string(raw[m.Head:]), len(raw)
		return m, Whole
	}
	return m, m.readBody(raw)
}

// Messages reads requests up to the first that is not whole, and tells what that one is: Partial where nothing is left.
func Messages(raw []byte) (all []Message, rest Outcome) {
	for len(raw) > 0 {
		m, outcome := ReadRequest(raw)
		if outcome != Whole {
			return all, outcome
		}
		all = append(all, m)
		raw = raw[m.End:]
	}
	return all, Partial
}

// latin1 makes one rune of each byte: expressions are about runes.
func latin1(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

func headless(bytes string) Outcome {
	if strings.Contains(bytes, "\r\n\r\n") {
		return Refused
	}
	return Partial
}

type line struct{ name, value string }

func fieldsOf(text string) []line {
	var all []line
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if name, value, ok := strings.Cut(l, ":"); ok {
			all = append(all, line{strings.ToLower(name), strings.Trim(value, " \t")})
		}
	}
	return all
}

// frame follows RFC 9112, section 6.
func (m *Message) frame(fields []line, http10 bool) bool {
	declared := 0
	for _, f := range fields {
		switch f.name {
		case "content-length":
			declared++
			n, err := strconv.ParseInt(f.value, 10, 64)
			if err != nil || !digits.MatchString(f.value) {
				return false
			}
			m.Length = n
		case "transfer-encoding":
			declared++
			if !strings.EqualFold(f.value, "chunked") {
				return false
			}
			m.Chunked = true
		}
	}
	return declared <= 1 && (!m.Chunked || !http10)
}

// address follows RFC 9112, sections 3.2 and 3.3.
func (m *Message) address(fields []line, http10 bool) bool {
	hosts := 0
	for _, f := range fields {
		if f.name == "host" {
			hosts++
			m.Host = f.value
			if !hostAlone.MatchString(f.value) {
				return false
			}
		}
	}
	if hosts > 1 || hosts == 0 && !http10 {
		return false
	}
	switch {
	case m.Method == http.MethodConnect:
		m.Host = m.Target
		return hostAlone.MatchString(m.Target)
	case m.Target[0] == '/', m.Target == "*" && m.Method == http.MethodOptions:
		m.Path = m.Target
		return true
	}
	part := absoluteForm.FindStringSubmatch(m.Target)
	if part == nil {
		return false
	}
	m.Host, m.Path = part[1], part[2]
	if !strings.HasPrefix(m.Path, "/") {
		m.Path = "/" + m.Path
	}
	return true
}

func (m *Message) readBody(raw []byte) Outcome {
	if m.Chunked {
		return m.readChunks(raw)
	}
	if int64(len(raw)-m.Head) < m.Length {
		return Partial
	}
	m.End = m.Head + int(m.Length)
	m.Body = string(raw[m.Head:m.End])
	return Whole
}

// readChunks follows RFC 9112, section 7.1.
func (m *Message) readChunks(raw []byte) Outcome {
	for at := m.Head; ; {
		rest := latin1(raw[at:])
		part := sizeLine.FindStringSubmatch(rest)
		if part == nil {
			return unended(rest)
		}
		size, err := strconv.ParseInt(part[1], 16, 64)
		if err != nil {
			return Refused
		}
		at += utf8.RuneCountInString(part[0])
		if size == 0 {
			return m.readTrailers(raw, at)
		}
		if size > int64(len(raw)-at) {
			return Partial
		}
		m.Body += string(raw[at : at+int(size)])
		at += int(size)
		if !strings.HasPrefix(string(raw[at:]), crlf) {
			return beginning(string(raw[at:]))
		}
		at += len(crlf)
	}
}

func (m *Message) readTrailers(raw []byte, at int) Outcome {
	rest := latin1(raw[at:])
	lines := trailerLines.FindString(rest)
	at += utf8.RuneCountInString(lines)
	if rest = rest[len(lines):]; strings.HasPrefix(rest, crlf) {
		m.End = at + len(crlf)
		return Whole
	}
	if strings.HasPrefix(rest, "\r") {
		return beginning(rest)
	}
	return unended(rest)
}

// beginning tells part of a line end from what is none.
func beginning(rest string) Outcome {
	if strings.HasPrefix(crlf, rest) {
		return Partial
	}
	return Refused
}

// unended tells a line that is none from one that goes on.
func unended(rest string) Outcome {
	if strings.ContainsAny(strings.TrimSuffix(rest, "\r"), "\r\n") {
		return Refused
	}
	return Partial
}
