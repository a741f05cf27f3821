// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/slowpath/h1/h1test"
)

// Values that a reader by the letter of RFC 9110 knows, and others that package strings, which goes by Unicode, takes for them.

func TestCodingsOfResponsesAreComparedByBytes(t *testing.T) {
	for _, c := range asciitest.Of("chunked") {
		t.Run(c.Name, func(t *testing.T) {
			raw := []byte(h1test.OK + "Transfer-Encoding: " + c.Text + "\r\n\r\n")
			if r, err := parseResponse(raw, "GET", nil, 100); !IsProtocolError(err) {
				t.Errorf("a response's coding %q: %+v, error %v", c.Text, r, err)
			}
		})
	}
}

func TestConnectionOptionsOfResponsesAreComparedByBytes(t *testing.T) {
	for _, c := range asciitest.Of("x-kiosk") {
		fields := []head.Field{{Name: []byte("Connection"), Value: []byte(c.Text)}, {Name: []byte("X-Kiosk"), Value: []byte("stays")}}
		if got := head.Values(EndToEnd(fields), "x-kiosk"); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("%s: Connection: %q leaves %q of X-Kiosk", c.Name, c.Text, got)
		}
		if got := string(appendEndToEnd(nil, fields)); got != "X-Kiosk: stays\r\n" {
			t.Errorf("%s: Connection: %q passes on %q", c.Name, c.Text, got)
		}
	}
	for _, c := range asciitest.Of("keep-alive") {
		resp := Response{HTTP10: true, Fields: []head.Field{{Name: []byte("Connection"), Value: []byte(c.Text)}}}
		if resp.persists() {
			t.Errorf("%s: a response's Connection: %q keeps its connection", c.Name, c.Text)
		}
	}
}
