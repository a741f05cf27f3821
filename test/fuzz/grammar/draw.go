// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Drawer draws messages, the same ones for the same seed.
type Drawer struct{ random *rand.Rand }

// NewDrawer returns one that begins with a seed.
func NewDrawer(seed uint64) *Drawer {
	return &Drawer{rand.New(rand.NewPCG(seed, 0))}
}

// draft is a message in the making.
type draft struct {
	// start is the parts of the first line, and between what stands between them.
	start   []string
	between []string
	lines   []string
	// end of each line, the first and the last empty one among them.
	ends []string
	body string
}

const crlf = "\r\n"

// Request draws a request, with another one behind it every third time. Some are in order, most have a few things that are odd.
func (d *Drawer) Request() []byte {
	f := d.plainRequest()
	for range d.random.IntN(4) {
		d.spoilRequest(&f)
	}
	raw := f.String()
	if d.oneIn(3) {
		raw += Hidden
	}
	return d.garble(raw)
}

// Response draws an answer to a request of that method, every fourth time behind an interim one or before what nobody has asked for.
func (d *Drawer) Response() (method string, raw []byte) {
	method = "GET"
	if d.oneIn(4) {
		method = "HEAD"
	}
	f := d.plainResponse(method)
	for range d.random.IntN(4) {
		d.spoilResponse(&f)
	}
	text := f.String()
	switch d.random.IntN(8) {
	case 0:
		text = d.pick(interims) + text
	case 1:
		text += "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"
	}
	return method, d.garble(text)
}

// Cut returns the length of the next piece of so many bytes that come in several: one in two times all of them.
func (d *Drawer) Cut(left int) int {
	if d.oneIn(2) {
		return left
	}
	return 1 + d.random.IntN(left)
}

func (d *Drawer) oneIn(n int) bool { return d.random.IntN(n) == 0 }

func (d *Drawer) pick(from []string) string { return from[d.random.IntN(len(from))] }

// plainRequest is in order.
func (d *Drawer) plainRequest() draft {
	f := draft{start: []string{"GET", "/a", "HTTP/1.1"}, between: []string{" ", " "}, lines: []string{"Host: a.test"}}
	switch d.random.IntN(3) {
	case 1:
		f.start[0] = "POST"
		f.lines = append(f.lines, "Content-Length: 5")
		f.body = "hello"
	case 2:
		f.start[0] = "POST"
		f.lines = append(f.lines, "Transfer-Encoding: chunked")
		f.body = d.chunks()
	}
	if d.oneIn(3) {
		f.lines = append(f.lines, "X-A: b")
	}
	f.finish()
	return f
}

func (d *Drawer) plainResponse(method string) draft {
	f := draft{start: []string{"HTTP/1.1", "200", "OK"}, between: []string{" ", " "}, lines: []string{"X-A: b"}}
	switch d.random.IntN(4) {
	case 0, 1:
		f.lines = append(f.lines, "Content-Length: 5")
		f.body = "hello"
	case 2:
		f.lines = append(f.lines, "Transfer-Encoding: chunked")
		f.body = d.chunks()
	}
	if method == "HEAD" {
		f.body = ""
	}
	f.finish()
	return f
}

func (f *draft) finish() {
	for range len(f.lines) + 2 {
		f.ends = append(f.ends, crlf)
	}
}

func (f *draft) insert(at int, line string) {
	f.lines = slices.Insert(f.lines, at, line)
	f.ends = slices.Insert(f.ends, at+1, crlf)
}

func (f *draft) String() string {
	var b strings.Builder
	for i, part := range f.start {
		b.WriteString(part)
		if i < len(f.between) {
			b.WriteString(f.between[i])
		}
	}
	b.WriteString(f.ends[0])
	for i, line := range f.lines {
		b.WriteString(line + f.ends[i+1])
	}
	b.WriteString(f.ends[len(f.ends)-1])
	b.WriteString(f.body)
	return b.String()
}

func (d *Drawer) spoilRequest(f *draft) {
	switch d.random.IntN(12) {
	case 0:
		f.start[0] = d.pick(methods)
	case 1:
		f.start[1] = d.pick(targets)
	case 2:
		f.start[2] = d.pick(versions)
	case 3:
		f.lines[0] = d.pick(hostLines)
	default:
		d.spoilEither(f, requestLines)
	}
}

func (d *Drawer) spoilResponse(f *draft) {
	switch d.random.IntN(10) {
	case 0:
		f.start[0] = d.pick(versions)
	case 1, 2:
		f.start[1] = d.pick(statuses)
	case 3:
		f.start[2] = d.pick(reasons)
	default:
		d.spoilEither(f, responseLines)
	}
}

// spoilEither does what can happen to requests and to responses.
func (d *Drawer) spoilEither(f *draft, lines []string) {
	switch d.random.IntN(12) {
	case 0:
		f.between[d.random.IntN(len(f.between))] = d.pick(separators)
	case 1:
		f.ends[d.random.IntN(len(f.ends))] = d.pick(lineEnds)
	case 2, 3:
		f.body = d.oddChunks()
	case 4:
		f.body = f.body[:d.random.IntN(len(f.body)+1)]
	case 5, 6:
		at := d.random.IntN(len(f.lines))
		f.lines[at] = d.pick(lines)
	default:
		f.insert(d.random.IntN(len(f.lines)+1), d.pick(lines))
	}
}

// chunks is a chunked body that is in order.
func (d *Drawer) chunks() string {
	var b strings.Builder
	for range d.random.IntN(3) {
		data := strings.Repeat("x", 1+d.random.IntN(20))
		fmt.Fprintf(&b, "%x%s\r\n%s\r\n", len(data), d.pick([]string{"", "", ";a", ";a=b", `;a="b c"`}), data)
	}
	b.WriteString("0\r\n")
	if d.oneIn(4) {
		b.WriteString("X-T: u\r\n")
	}
	return b.String() + crlf
}

func (d *Drawer) oddChunks() string {
	body := d.chunks()
	at := strings.LastIndex(body, "0\r\n")
	switch d.random.IntN(3) {
	case 0:
		return d.pick(chunkParts) + body
	case 1:
		return body[:at] + d.pick(chunkParts) + body[at:]
	}
	return body[:at] + d.pick(chunkEnds)
}

// garble replaces, adds or leaves out a byte or two, one in four times.
func (d *Drawer) garble(raw string) []byte {
	b := []byte(raw)
	if !d.oneIn(4) {
		return b
	}
	for range 1 + d.random.IntN(2) {
		if len(b) == 0 {
			break
		}
		at, c := d.random.IntN(len(b)), special[d.random.IntN(len(special))]
		switch d.random.IntN(3) {
		case 0:
			b[at] = c
		case 1:
			b = slices.Insert(b, at, c)
		case 2:
			b = slices.Delete(b, at, at+1)
		}
	}
	return b
}
