// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"testing"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
)

// Where Envoy compares without case it compares letters of ASCII, and white space is SP and HTAB.
func TestCaseIsThatOfASCII(t *testing.T) {
	const word = "kiosk-cache"
	for _, c := range asciitest.Of(word) {
		exact := StringMatch{Kind: StringExact, Value: word, IgnoreCase: true}
		if path := (PathMatch{Kind: PathExact, Value: "/" + word, IgnoreCase: true}); exact.Matches(c.Text) || path.Matches("/"+c.Text) {
			t.Errorf("%s: %q is taken for %s", c.Name, c.Text, word)
		}
	}
	for _, c := range asciitest.Folded(word) {
		for _, kind := range []StringKind{StringPrefix, StringSuffix, StringContains} {
			if m := (StringMatch{Kind: kind, Value: word, IgnoreCase: true}); m.Matches(c.Text) {
				t.Errorf("%s: kind %d takes %q for %s", c.Name, kind, c.Text, word)
			}
		}
	}
	for _, c := range asciitest.Of("https") {
		if got := SchemeOf("", []string{c.Text}); got != "http" {
			t.Errorf("%s: X-Forwarded-Proto: %q makes it %s", c.Name, c.Text, got)
		}
	}
	for _, c := range append(asciitest.Padded("5"), asciitest.Controlled("5")...) {
		if (Range{Start: 5, End: 6}).Contains(c.Text) {
			t.Errorf("%s: %q is the number 5", c.Name, c.Text)
		}
	}
}
