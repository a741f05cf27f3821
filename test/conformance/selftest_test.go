// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"
)

func TestMessagesAreCutWhereTheyEnd(t *testing.T) {
	tests := []struct {
		name, bytes string
		read        reader
		want        string
	}{
		{"two requests", get + post("Content-Length: 5\r\n", "hello"), readRequest, "[GET POST length 5]"},
		{"target that net/http refuses", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n" + get, readRequest, "[GET `/%zz` GET]"},
		{"body cut short", post("Content-Length: 6\r\n", "hello"), readRequest, "[POST length 6 cut short]"},
		{"trailers", post("Transfer-Encoding: chunked\r\n", "0\r\nX: y\r\n\r\n"), readRequest, "[POST chunked with trailers]"},
		{"two framings", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), readRequest, "[POST length 5 and chunked]"},
		{"no request", "\x16\x03\r\n\r\n", readRequest, "[\x16\x03 `` that cannot be read]"},
		{"informational response", hints + hello, responseReader(false, false), "[103 200 length 5]"},
		{"open end", ok + "\r\nhello", responseReader(false, false), "[200 until close cut short]"},
		{"ended", ok + "\r\nhello", responseReader(false, true), "[200 until close]"},
		{"answer to HEAD", ok + "Content-Length: 5\r\n\r\n" + hello, responseReader(true, false), "[200 length 5 200 length 5 bytes without a head]"},
		{"part of a head", hello + "HTTP/1.1 200", responseReader(false, false), "[200 length 5 bytes without a head]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(messages([]byte(tt.bytes), tt.read)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestColumnIsLeftOutOfEveryTable(t *testing.T) {
	page := "text | of | the page\n\n" + row([]string{"case", "XLB", "nginx 1"}) + "|---|---|---|\n" + row([]string{"GET", "200", "same"})
	got, name := without(page, 2)
	want := "text | of | the page\n\n| case | XLB\n|---|---|---|\n| GET | 200\n"
	if got != want || name != "nginx 1" {
		t.Errorf("got %q and the name %q, want %q", got, name, want)
	}
}
