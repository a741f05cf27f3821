// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// message is a request as the endpoint received it, or a response as the client did.
type message struct {
	// status of a response; method and target of a request.
	status         int
	method, target string
	header         http.Header
	// framing is what the head says of the body: "length 5", "chunked", "until close", or "" for none.
	framing  string
	body     string
	trailers bool
	// last announces the end of the connection.
	last bool
	// headWhole and whole tell that the head, and the message, came to their end.
	headWhole, whole bool
	// junk tells that no message can be read from a head like this.
	junk bool
}

// reader reads the message that some bytes begin with, and tells how long it is; head is its head without the empty line.
type reader func(b []byte, head string) (m message, length int)

// messages cuts bytes into messages, up to the first that is not whole.
func messages(b []byte, read reader) []message {
	var all []message
	for len(b) > 0 {
		head, _, ok := strings.Cut(string(b), "\r\n\r\n")
		if !ok {
			return append(all, message{})
		}
		m, length := read(b, head)
		m.headWhole = true
		all = append(all, m)
		if !m.whole || m.status == http.StatusSwitchingProtocols {
			return all
		}
		b = b[length:]
	}
	return all
}

// readRequest is a reader. The target is none of net/http's business, which refuses some that others pass on.
func readRequest(b []byte, head string) (message, int) {
	line, _, _ := strings.Cut(head, "\r\n")
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	m := message{method: method, target: target, framing: framing(head)}
	plain := method + " / " + version
	source := newSource(append([]byte(plain), b[len(line):]...))
	request, err := http.ReadRequest(source.Reader)
	if err != nil {
		m.junk = true
		return m, 0
	}
	m.header = request.Header
	m.readBody(request.Body)
	m.trailers = hasValues(request.Trailer)
	return m, source.read() + len(line) - len(plain)
}

// responseReader reads answers to GET, or to HEAD. ended tells that the other side has closed the connection in order: that ends
// a body that nothing else does.
func responseReader(isHead, ended bool) reader {
	asked := &http.Request{Method: http.MethodGet}
	if isHead {
		asked.Method = http.MethodHead
	}
	return func(b []byte, head string) (message, int) {
		source := newSource(b)
		response, err := http.ReadResponse(source.Reader, asked)
		if err != nil {
			return message{junk: true}, 0
		}
		m := message{status: response.StatusCode, header: response.Header, framing: framing(head), last: response.Close}
		if m.framing == "" && m.mayHaveBody() && !isHead {
			m.framing = "until close"
		}
		m.readBody(response.Body)
		m.trailers = hasValues(response.Trailer)
		m.whole = m.whole && (m.framing != "until close" || ended)
		return m, source.read()
	}
}

// hasValues tells trailers from those that were only announced.
func hasValues(trailer http.Header) bool {
	for _, values := range trailer {
		if len(values) > 0 {
			return true
		}
	}
	return false
}

// source is a reader that knows how much of it has been read.
type source struct {
	*bufio.Reader
	under *bytes.Reader
}

func newSource(b []byte) source {
	under := bytes.NewReader(b)
	return source{bufio.NewReader(under), under}
}

func (s source) read() int { return int(s.under.Size()) - s.under.Len() - s.Buffered() }

// readBody leaves whole false when the bytes at hand end before the body does.
func (m *message) readBody(from io.Reader) {
	body, err := io.ReadAll(from)
	m.body, m.whole = string(body), err == nil
}

// framing is what the fields of a head say; net/http hides what contradicts itself.
func framing(head string) string {
	var said []string
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.ToLower(strings.TrimSpace(value)); strings.ToLower(strings.TrimSpace(name)) {
		case "content-length":
			said = append(said, "length "+value)
		case "transfer-encoding":
			said = append(said, value)
		}
	}
	return strings.Join(said, " and ")
}

// final tells whether a response is not an informational one.
func (m message) final() bool { return m.status >= 200 || m.status == http.StatusSwitchingProtocols }

// mayHaveBody tells whether an answer to GET with this status has a body.
func (m message) mayHaveBody() bool {
	return m.status >= 200 && m.status != http.StatusNoContent && m.status != http.StatusNotModified
}

// String is the message in the words of the table.
func (m message) String() string {
	if !m.headWhole {
		return "bytes without a head"
	}
	words := []string{fmt.Sprint(m.status)}
	if m.method != "" {
		words[0] = m.method
		if m.target != path {
			words = append(words, short(m.target))
		}
	}
	// Whose words an error is in says nothing about HTTP.
	if m.framing != "" && m.status < 400 {
		words = append(words, m.framing)
	}
	if m.trailers {
		words = append(words, "with trailers")
	}
	switch {
	case m.junk && m.method == "":
		return "no HTTP"
	case m.junk:
		words = append(words, "that cannot be read")
	case !m.whole:
		words = append(words, "cut short")
	}
	return strings.Join(words, " ")
}

// short leaves out what is too long for the table.
func short(target string) string {
	if len(target) <= 40 {
		return "`" + strings.Trim(strconv.QuoteToASCII(target), `"`) + "`"
	}
	return fmt.Sprintf("target of %d bytes", len(target))
}
