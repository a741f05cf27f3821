// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

func TestSessionReadsWhatItWrites(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tests := []struct {
		name    string
		session Session
		// field and value that Envoy 1.40 was seen to send for 127.97.0.2:9801 at that time.
		field, value string
	}{
		{"cookie of a session", Session{Cookie: "s", New: NewCookie{Path: "/x"}}, "set-cookie", `s="Cg8xMjcuOTcuMC4yOjk4MDE="; Path=/x; HttpOnly`},
		{"cookie with an end", Session{Cookie: "s", New: NewCookie{TTL: 120 * time.Second}}, "set-cookie", `s="Cg8xMjcuOTcuMC4yOjk4MDEQ+KSn2gY="; Max-Age=120; HttpOnly`},
		{"header", Session{Header: "x-host"}, "x-host", "MTI3Ljk3LjAuMjo5ODAx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			field, value := tt.session.Field("127.97.0.2:9801", now)
			if field != tt.field || value != tt.value {
				t.Errorf("%s: %s", field, value)
			}
			brought := map[string][]string{field: {value}}
			if tt.session.Header == "" {
				brought = map[string][]string{"cookie": {"a=b; " + value}}
			}
			r := &matcher.Request{Values: func(name string) []string { return brought[name] }}
			if got := tt.session.Endpoint(r, now); got != "127.97.0.2:9801" {
				t.Errorf("read as %q", got)
			}
			if got := tt.session.Endpoint(r, now.Add(121*time.Second)); (got == "") != (tt.session.New.TTL > 0) {
				t.Errorf("after its time: %q", got)
			}
		})
	}
}

func TestSessionReadsNoEndpointFromAnythingElse(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	tests := map[string]string{
		"":                                  "",
		"!!!":                               "",
		encode("\x0a\x05a:123"):             "a:123",
		encode("\x0a\x05a:123") + "=":       "",
		encode("\x0a\x05a:12"):              "\x0a\x05a:12", // too short: no message, hence the older form
		encode("\x10\x01"):                  "",
		encode("\x0a\x01a\x0a\x01b"):        "b",
		encode("\x0a\x01a\x18\x07"):         "a",
		encode("\x0a\x01\xff"):              "\x0a\x01\xff",
		encode("127.97.0.2:9801"):           "127.97.0.2:9801",
		encode("\x0a\x01a\x10\xff\xff\x7f"): "", // over since 1970
	}
	s := Session{Cookie: "s"}
	for value, want := range tests {
		r := &matcher.Request{Values: func(string) []string { return []string{"s=" + value} }}
		if got := s.Endpoint(r, time.Now()); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

func TestSessionConcernsThePathOfItsCookie(t *testing.T) {
	tests := []struct {
		of   string
		path string
		want bool
	}{
		{"", "/a", true},
		{"/", "/a", true},
		{"/a", "/a", true},
		{"/a", "/a?b", true},
		{"/a", "/a/b", true},
		{"/a", "/ab", false},
		{"/a/", "/a/b", true},
		{"/a/", "/a", false},
		{"/a", "/", false},
	}
	for _, tt := range tests {
		s := Session{Cookie: "s", New: NewCookie{Path: tt.of}}
		if got := s.Concerns(tt.path); got != tt.want {
			t.Errorf("%q for %q: %v", tt.of, tt.path, got)
		}
	}
}
