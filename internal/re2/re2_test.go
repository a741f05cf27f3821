// SPDX-License-Identifier: Apache-2.0

package re2

import (
	"strings"
	"testing"
)

// TestMatchesAsRE2 holds what was measured with RE2 (google-re2 1.1.20251105, Latin-1, fullmatch).
func TestMatchesAsRE2(t *testing.T) {
	tests := []struct {
		name, source, value string
		want                bool
	}{
		{"case of ASCII", `(?i)[\xe9a]`, "A", true},
		{"no case beyond", `(?i)[\xe9a]`, "\xc9", false},
		{"no case in a quotation", "(?i)\\Q\xe9\\E", "\xc9", false},
		{"negated with case", `(?i)[^k]`, "K", false},
		{"ranges that cross hold no case", `(?i)[{-\xff]`, "s", false},
		{"ranges that cross hold both parts", `[a-\xe9]`, "\x80", true},
		{"range of bytes", "[\xe0-\xff]", "\xe9", true},
		{"quotation without an end", `\Qa.`, "a.", true},
		{"operator behind a quotation", `\Qab\E+`, "abb", true},
		{"empty quotation", `\Q\E`, "", true},
		{"backslash before the end of a quotation", `\Qa\\E`, `a\`, true},
		{"octal", `\12\08`, "\n\x008", true},
		{"bracket that comes first", `[]a]`, "]", true},
		{"bracket that comes first in a negated class", `[^]a]`, "]", false},
		{"bracket in brackets", `[[a]`, "[", true},
		{"class, then a hyphen", `[\d-z]`, "-", true},
		{"POSIX class, then a hyphen", `[[:alpha:]-z]`, "-", true},
		{"hyphens", `[--a]`, ".", true},
		{"range, then a hyphen", `[a-b-c]`, "-", true},
		{"Unicode class", `\pL`, "\xc9", true},
		{"Unicode class of one letter, then a letter", `\pLL`, "\xc9L", true},
		{"Unicode class without a byte", `[a\p{Greek}]`, "\xb5", false},
		{"Unicode class with case", `(?i)\p{Lu}`, "e", true},
		{"Unicode class without case beyond ASCII", `(?i)\p{Lu}`, "\xe9", false},
		{"case before negation", `(?i)\P{Lu}`, "a", false},
		{"negated twice", `\P{^L}`, "\xff", true},
		{"any", `\p{Any}`, "\xff", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			re, err := CompileWhole(tt.source)
			if err != nil {
				t.Fatal(err)
			}
			if got := re.MatchString(Text(tt.value)); got != tt.want {
				t.Errorf("%q of %q: got %t", tt.source, tt.value, got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for source, want := range map[string]string{
		`\x{100}`:     "error parsing regexp: invalid escape sequence: `\\x{100}`",
		`[a-\x{100}]`: "error parsing regexp: invalid escape sequence: `\\x{100}`",
		`\777`:        "error parsing regexp: invalid escape sequence: `\\777`",
		`\x{}`:        "error parsing regexp: invalid escape sequence: `\\x{}`",
		`\1`:          "error parsing regexp: invalid escape sequence: `\\1`",
		`a\E`:         "error parsing regexp: invalid escape sequence: `\\E`",
		`[a-\d]`:      "error parsing regexp: invalid escape sequence: `\\d`",
		`[[:foo:]]`:   "error parsing regexp: invalid character class range: `[:foo:]`",
		`\p{}`:        "error parsing regexp: invalid character class range: `\\p{}`",
		`\p{L`:        "error parsing regexp: invalid character class range: `\\p{L`",
		`[\PL\P{Lu}]`: "error parsing regexp: invalid character class range: `\\P{Lu}`",
		"[\xff":       "error parsing regexp: missing closing ]: `[\xff`",
		"\\\xe9":      "error parsing regexp: invalid escape sequence: `\\\xe9`",
		`a)|(?:b`:     "error parsing regexp: unexpected ): `a)|(?:b`",
		`[`:           "error parsing regexp: missing closing ]: `[`",
		`a\`:          "error parsing regexp: trailing backslash at end of expression: ``",
		"(?P<\xe9>a)": "error parsing regexp: invalid named capture: `(?P<\xe9>`",
	} {
		if _, err := CompileWhole(source); err == nil || err.Error() != want {
			t.Errorf("%q: error %q, want %q", source, err, want)
		}
	}
}

func TestTextAndBytes(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if got := Bytes(Text(string(all))); got != string(all) {
		t.Errorf("got %q", got)
	}
	for _, tt := range []struct {
		lo, hi rune
		want   Span
		ok     bool
	}{
		{0, 0x10ffff, Span{0, 0xff}, true},
		{'a', base + 0x85, Span{'a', 0x85}, true},
		{0x80, base + 0x7f, Span{}, false},
		{base + 0x100, 0x10ffff, Span{}, false},
		{0x70, 0x300, Span{0x70, 0x7f}, true},
	} {
		if got, ok := Clip(tt.lo, tt.hi); got != tt.want || ok != tt.ok {
			t.Errorf("%x to %x: got %v, %t", tt.lo, tt.hi, got, ok)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for _, source := range []string{`[`, `\`, `\p`, `\p{`, `\x{`, `\Q`, `[[:`, `[^`, `[a-`, `[\pL-`, "\xff"} {
		f.Add(source)
	}
	f.Fuzz(func(_ *testing.T, source string) {
		if re, err := CompileWhole(source); err == nil {
			re.MatchString(Text(source))
		}
	})
}

func TestCheckCountsWhatIsRepeated(t *testing.T) {
	for source, want := range map[string]int{
		`a`: 2, `abc`: 4, `a{1000}`: 2001, `[a-ce-g]`: 3, `(?:[a-c]x){10}`: 51, `a|b`: 2, `((a{10}){10}){10}`: 2221, strings.Repeat(`\x{61}`, 40): 60,
	} {
		cost, err := Check(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CompileWhole(source); err != nil {
			t.Errorf("%s: checked, and %v", source, err)
		}
		if cost != want {
			t.Errorf("%s: %d steps, want %d", source, cost, want)
		}
	}
	deep := strings.Repeat("(", 999) + strings.Repeat(")", 999)
	if _, err := Check(deep); err == nil {
		if _, err := CompileWhole(deep); err != nil {
			t.Errorf("checked, and %v", err)
		}
	}
}
