// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"testing"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
	"github.com/xlb-project/xlb/internal/head"
)

// Names and values that a reader by the letter of RFC 9110 knows, and others that package strings,
// which goes by Unicode, takes for them.

func TestCodingsAreComparedByBytes(t *testing.T) {
	for _, c := range asciitest.Of("chunked") {
		t.Run(c.Name, func(t *testing.T) {
			raw := []byte("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: " + c.Text + "\r\n\r\n")
			if h, reply := parseHead(raw, 100); reply != ReplyNotImplemented || h.Chunked {
				t.Errorf("a request's coding %q: reply %v, chunked %v", c.Text, reply, h.Chunked)
			}
		})
	}
	for _, c := range asciitest.Controlled("chunked") {
		raw := []byte("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: " + c.Text + "\r\n\r\n")
		if _, reply := parseHead(raw, 100); reply != ReplyBadRequest {
			t.Errorf("%s: reply %v", c.Name, reply)
		}
	}
}

func TestConnectionOptionsAreComparedByBytes(t *testing.T) {
	for _, c := range append(asciitest.Of("close"), asciitest.Of("host")...) {
		raw := []byte("GET / HTTP/1.1\r\n" + host + "Connection: " + c.Text + "\r\n\r\n")
		if h, reply := parseHead(raw, 100); reply != noReply || !h.KeepAlive {
			t.Errorf("%s: Connection: %q: reply %v, kept %v", c.Name, c.Text, reply, h.KeepAlive)
		}
	}
	for _, c := range asciitest.Of("keep-alive") {
		raw := []byte("GET / HTTP/1.0\r\nConnection: " + c.Text + "\r\n\r\n")
		if h, reply := parseHead(raw, 100); reply != noReply || h.KeepAlive {
			t.Errorf("%s: Connection: %q: reply %v, kept %v", c.Name, c.Text, reply, h.KeepAlive)
		}
	}
}

func TestNamesOfFieldsAreComparedByBytes(t *testing.T) {
	for _, name := range []string{"transfer-encoding", "keep-alive", "host", "connection"} {
		for _, c := range append(asciitest.Of(name), asciitest.Controlled(name)...) {
			if fields, refusal := head.ParseFields([]byte(c.Text+": a\r\n\r\n"), nil, 100); refusal == nil {
				t.Errorf("%s: %q is taken for a field's name: %q", c.Name, c.Text, fields[0].Name)
			}
			if (field{Name: []byte(c.Text)}).Is(name) {
				t.Errorf("%s: %q is %s", c.Name, c.Text, name)
			}
		}
	}
}

func TestMethodsAndSchemesAreComparedByBytes(t *testing.T) {
	for _, line := range []string{"OPTION\u017f / HTTP/1.1", "GET http\u017f://a/ HTTP/1.1", "po\u017ft / HTTP/1.1"} {
		if _, reply := parseHead([]byte(line+"\r\n"+host+"\r\n"), 100); reply != ReplyBadRequest {
			t.Errorf("%q: reply %v", line, reply)
		}
	}
}
