// SPDX-License-Identifier: Apache-2.0

package ascii_test

import (
	"testing"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/ascii/asciitest"
)

func TestLettersOfASCIIAloneHaveACase(t *testing.T) {
	for c := range 256 {
		b := string([]byte{byte(c)})
		isUpper, isLower := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z'
		lower, upper := ascii.Lower(b), ascii.Upper(b)
		if (lower != b) != isUpper || isUpper && lower[0] != byte(c)+32 {
			t.Errorf("Lower(%q) = %q", b, lower)
		}
		if (upper != b) != isLower || isLower && upper[0] != byte(c)-32 {
			t.Errorf("Upper(%q) = %q", b, upper)
		}
		for d := range 256 {
			want := c == d || (isUpper && d == c+32) || (isLower && d == c-32)
			if got := ascii.EqualFold(b, []byte{byte(d)}); got != want {
				t.Errorf("EqualFold(%q, %q) = %v", b, string([]byte{byte(d)}), got)
			}
		}
	}
}

func TestWholeWordsAreCompared(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true},
		{"chunked", "Chunked", true},
		{"CHUNKED", "chunked", true},
		{"chunked", "chunke", false},
		{"chunked", "chunkee", false},
		{"Grüße", "gRüSSe", false},
		{"Grüße", "GRüßE", true},
	} {
		if got := ascii.EqualFold(c.a, c.b); got != c.want {
			t.Errorf("EqualFold(%q, %q) = %v", c.a, c.b, got)
		}
	}
	if got := ascii.Lower("abcDÉF\xc3"); got != "abcdÉf\xc3" {
		t.Errorf("Lower: %q", got)
	}
	for _, c := range append(asciitest.Of("kiosk-cache"), asciitest.Controlled("kiosk-cache")...) {
		if ascii.EqualFold(c.Text, "kiosk-cache") || ascii.Lower(c.Text) == "kiosk-cache" || ascii.TrimSpace(c.Text) != c.Text {
			t.Errorf("%s: %q passes for another text", c.Name, c.Text)
		}
	}
}

func TestSpacesAndTabsAreTrimmed(t *testing.T) {
	for given, want := range map[string]string{"": "", " \t": "", "\t a b\t ": "a b", "a": "a"} {
		if got := ascii.TrimSpace(given); got != want {
			t.Errorf("TrimSpace(%q) = %q", given, got)
		}
		if got := ascii.TrimSpace([]byte(given)); string(got) != want {
			t.Errorf("TrimSpace(%q) = %q", given, got)
		}
	}
}
