// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestStrictReaderReadsWhatTheLetterSays(t *testing.T) {
	const first, host = "POST /a HTTP/1.1\r\n", "Host: a\r\n"
	tests := []struct {
		name, raw string
		want      Outcome
		// end and body of a whole message.
		end  int
		body string
	}{
		{"no body", first + host + "\r\nrest", Whole, 29, ""},
		{"length", first + host + "Content-Length: 2\r\n\r\nokrest", Whole, 50, "ok"},
		{"chunks", first + host + "Transfer-Encoding: chunked\r\n\r\n2;a = \"\\\"\"\r\nok\r\n0\r\nA: b\r\n\r\nrest", Whole, 84, "ok"},
		{"empty lines first", "\r\n\r\n" + first + host + "\r\n", Whole, 33, ""},
		{"byte above 127", first + host + "A: \xff\r\n\r\n", Whole, 35, ""},
		{"absolute form", "GET http://b?c HTTP/1.1\r\n" + host + "\r\n", Whole, 36, ""},
		{"half a head", first + host, Partial, 0, ""},
		{"half a body", first + host + "Content-Length: 2\r\n\r\no", Partial, 0, ""},
		{"half a size", first + host + "Transfer-Encoding: chunked\r\n\r\n2;a", Partial, 0, ""},
		{"half a trailer", first + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", Partial, 0, ""},
		{"no size", first + host + "Transfer-Encoding: chunked\r\n\r\nx\r\n", Refused, 0, ""},
		{"data too long", first + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n", Refused, 0, ""},
		{"bare LF", "GET /a HTTP/1.1\n" + host + "\r\n\r\n", Refused, 0, ""},
		{"both framings", first + host + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", Refused, 0, ""},
		{"two hosts", first + host + host + "\r\n", Refused, 0, ""},
		{"no host", first + "\r\n", Refused, 0, ""},
		{"no space before a colon", first + "Host : a\r\n\r\n", Refused, 0, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m, got := ReadRequest([]byte(tc.raw))
			if got != tc.want || got == Whole && (m.End != tc.end || m.Body != tc.body) {
				t.Errorf("outcome %d, end %d, body %q", got, m.End, m.Body)
			}
		})
	}
}

func TestDrawingIsTheSameForOneSeed(t *testing.T) {
	a, b, c := NewDrawer(7), NewDrawer(7), NewDrawer(8)
	same := true
	for range 100 {
		one := a.Request()
		if !bytes.Equal(one, b.Request()) {
			t.Fatal("the same seed draws something else")
		}
		same = same && bytes.Equal(one, c.Request())
	}
	if same {
		t.Error("another seed draws the same")
	}
}

func TestCasesOfTheCorpusAreToldApart(t *testing.T) {
	names := map[string]bool{}
	for i, c := range Corpus() {
		if names[c.Name] {
			t.Errorf("%s: twice", c.Name)
		}
		names[c.Name] = true
		if n := c.Numbered(i); strings.Contains(n, Mark) || !strings.Contains(n, fmt.Sprintf("-%03d", i)) || len(n) != len(c.Bytes) {
			t.Errorf("%s: %q", c.Name, n)
		}
	}
	const least = 150
	if len(names) < least {
		t.Errorf("%d cases, want at least %d", len(names), least)
	}
}
