// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"
	"testing"
)

// TestPathsAreChangedAsByEnvoy holds what Envoy 1.40 makes of paths; test/routes asks it again, at random.
func TestPathsAreChangedAsByEnvoy(t *testing.T) {
	const refused = "400"
	none, normalize, merge := PathRule{}, PathRule{Normalize: true}, PathRule{MergeSlashes: true}
	both := PathRule{Normalize: true, MergeSlashes: true}
	reject, forward := PathRule{EscapedSlashes: RejectSlashes}, PathRule{EscapedSlashes: ForwardSlashes}
	all := PathRule{Normalize: true, MergeSlashes: true, EscapedSlashes: ForwardSlashes}
	tests := []struct {
		rule       PathRule
		sent, want string
	}{
		{none, "/a//../%2f%61", "/a//../%2f%61"},
		{all, "*", "*"},
		{all, "", ""},

		{normalize, "/a/../b", "/b"},
		{normalize, "/a/..", "/"},
		{normalize, "/a/.", "/a/"},
		{normalize, "/../../a", "/a"},
		{normalize, "/a/.../..a/.b/c./d..", "/a/.../..a/.b/c./d.."},
		{normalize, "/a//../b", "/a/b"},
		{normalize, "/a/..//b", "//b"},
		{normalize, "/a/../b?c/../d//%2f", "/b?c/../d//%2f"},
		{normalize, "/a/%2e%2E/.%2e/b", "/b"},
		{normalize, "/a/%2eb", "/a/.b"},
		{normalize, `/a\..\b`, "/b"},
		{normalize, `/a\\b`, "/a//b"},
		{normalize, "/%41%7e%2d%5f%30", "/A~-_0"},
		{normalize, "/%2f%5C%25%20%c3%a9%7c", "/%2f%5C%25%20%c3%a9%7c"},
		{normalize, "/a|\"<>^`{}[]", "/a%7C%22%3C%3E%5E%60%7B%7D[]"},
		{normalize, "/a%00", refused},
		{normalize, "/%/%2/%zz/a%", "/%/%2/%zz/a%"},
		{normalize, "/%%34%31", "/%2541"},
		{normalize, "/%4%31", "/%2541"},
		{normalize, "/%%341", "/%2541"},
		{normalize, "/%%34g", "/%4g"},
		{normalize, "/%%41%42", "/%25AB"},
		{normalize, "/%2%3541", "/%252541"},
		{normalize, "/~%%/../;%2F%41", "/;%2FA"},
		{normalize, "/a/..;x/b", "/b"},
		{normalize, "/a/.;/b;/..;", "/a/"},
		{normalize, "/a/...;/%2e%2e;/b", "/a/...;/..;/b"},
		{normalize, `/a\..;/b`, "/a/..;/b"},
		{normalize, "/a/..;%00/b", "/b"},

		{merge, "/a///b//", "/a/b/"},
		{merge, "/a/..//b?c//d", "/a/../b?c//d"},
		{merge, "//", "//"},
		{merge, "///", "//"},
		{merge, `/\/a`, `/\/a`},
		{both, "/.//", "//"},
		{both, "/a/..//b", "/b"},

		{reject, "/a%2Fb", refused},
		{reject, "/a%5cb", refused},
		{reject, "/a?%2f", "/a?%2f"},
		{forward, "/a%2Fb%5c%2f/..?%2f", `/a/b\//..?%2f`},
		{forward, "/%2%2f", "/%2/"},
		{all, "/a%2f..%2fb", "/b"},
		{all, "/a%5C%2fb", "/a/b"},
	}
	for _, tt := range tests {
		got, outcome := tt.rule.Apply(tt.sent)
		if outcome == PathRefused {
			got = refused
		}
		if got != tt.want || outcome == PathRedirected {
			t.Errorf("%+v: %q becomes %q (%d), want %q", tt.rule, tt.sent, got, outcome, tt.want)
		}
	}
}

func TestOnlyEscapedSlashesRedirect(t *testing.T) {
	rule := PathRule{Normalize: true, MergeSlashes: true, EscapedSlashes: RedirectSlashes}
	for _, tt := range []struct {
		sent, want string
		outcome    PathOutcome
	}{
		{"/a//..//b", "/a/b", PathTaken},
		{"/a%2f..%5cb?c", "/b?c", PathRedirected},
		{"/%2f%00", "/%2f%00", PathRefused},
	} {
		if got, outcome := rule.Apply(tt.sent); got != tt.want || outcome != tt.outcome {
			t.Errorf("%q becomes %q (%d), want %q (%d)", tt.sent, got, outcome, tt.want, tt.outcome)
		}
	}
}

func TestRedirectOfEscapedSlashesStaysOnThisHost(t *testing.T) {
	for _, rule := range []PathRule{
		{EscapedSlashes: RedirectSlashes}, {EscapedSlashes: RedirectSlashes, MergeSlashes: true}, {EscapedSlashes: RedirectSlashes, Normalize: true},
		{EscapedSlashes: RedirectSlashes, Normalize: true, MergeSlashes: true},
	} {
		for _, sent := range []string{
			"/%2Fevil.example", "/%5Cevil.example", "/%5c%5cevil.example", "/%2f%2Fevil.example", "//evil.example%2f", `/\evil.example%2f`, `/%5c/\evil.example?a=//b`, "/.%2f%2fevil.example",
		} {
			got, outcome := rule.Apply(sent)
			rest := strings.TrimPrefix(got, "/")
			if outcome != PathRedirected || rest == got || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, `\`) {
				t.Errorf("%+v: %q becomes %q (%d), which is another host's", rule, sent, got, outcome)
			}
		}
	}
}
