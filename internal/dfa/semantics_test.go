// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

// TestSemantics holds what was measured with RE2 (google-re2 1.1.20251105, fullmatch): it answers every row alike.
func TestSemantics(t *testing.T) {
	tests := []struct {
		name    string
		pattern string
		match   []string
		differ  []string
	}{
		{"literal", `abc`, []string{"abc"}, []string{"", "ab", "abcd", "xabc", "ABC"}},
		{"empty pattern", ``, []string{""}, []string{"a", "\n"}},
		{"alternatives, the shorter first", `a|ab|abc`, []string{"a", "ab", "abc"}, []string{"abcd", ""}},
		{"empty alternative", `a|`, []string{"a", ""}, []string{"aa"}},
		{"lazy operators match all the same", `a*?b??`, []string{"", "aaa", "aab", "b"}, []string{"ba"}},
		{"counted", `a{2,3}`, []string{"aa", "aaa"}, []string{"a", "aaaa"}},
		{"at least", `(ab){2,}`, []string{"abab", "ababab"}, []string{"ab", "aba"}},
		{"zero times", `a{0}b`, []string{"b"}, []string{"ab"}},
		{"a brace that is no count", `a{,3}`, []string{"a{,3}"}, []string{"aaa"}},
		{"star of an empty match", `(a*)*b`, []string{"b", "aab"}, []string{"a"}},
		{"dot is no newline", `a.b`, []string{"axb", "a\rb", "aéb", "a😀b"}, []string{"a\nb", "ab", "axxb"}},
		{"dot with s", `(?s)a.b`, []string{"a\nb"}, []string{"ab"}},
		{"negated class holds newline", `[^a]`, []string{"\n", "é"}, []string{"a", ""}},
		{"anchors are redundant", `^abc$`, []string{"abc"}, []string{"abc\n", "\nabc"}},
		{"dollar is the very end", `abc$\n?`, []string{"abc"}, []string{"abc\n"}},
		{"dollar with m", `(?m)a$\nb`, []string{"a\nb"}, []string{"ab"}},
		{"caret with m", `(?m)a\n^b`, []string{"a\nb"}, []string{"ab"}},
		{"caret without m", `a\n^b`, nil, []string{"a\nb", ""}},
		{"caret after a line that stays open", `(?m)(a|\n)*^b`, []string{"b", "a\nb", "\nb"}, []string{"ab", "\nab"}},
		{"text ends", `\Aab\z`, []string{"ab"}, []string{"ab\n"}},
		{"assertions in sequence", `^\b^a\b\b$`, []string{"a"}, []string{"-", ""}},
		{"assertion that cannot hold", `a\bb`, nil, []string{"ab", "a b"}},
		{"word boundary", `.*\bfoo\b.*`, []string{"foo", "a foo b", "-foo-", "éfooé"}, []string{"afoo", "foo1", "foo_"}},
		{"no word boundary", `.*\Bfoo`, []string{"afoo", "_foo"}, []string{"foo", "-foo", "éfoo"}},
		{"word boundary at the ends", `\b.*\b`, []string{"a", "a-b"}, []string{"", "-", "a-", "-a"}},
		{"no word boundary in an empty text", `\B`, []string{""}, []string{"a"}},
		{"word boundary repeated", `(\ba)*`, []string{"", "a"}, []string{"aa"}},
		{"Perl classes are ASCII", `\d\w\s`, []string{"1a ", "9_\t"}, []string{"٣a ", "1é ", "1a\u00a0", "1a\v"}},
		{"their complements are not", `\D\W\S`, []string{"٣éx"}, []string{"1éx"}},
		{"POSIX class", `[[:alpha:]]+`, []string{"aZ"}, []string{"a1", "é"}},
		{"negated POSIX class", `[[:^alpha:]]`, []string{"1", "é"}, []string{"a"}},
		{"Unicode class", `\pN+`, []string{"1", "٣", "Ⅷ", "1٣"}, []string{"a", ""}},
		{"Unicode script", `\p{Greek}+`, []string{"αβγ", "Ω"}, []string{"abc"}},
		{"negated Unicode class", `\P{L}`, []string{"1", "€"}, []string{"a", "é"}},
		{"quoted", `\Qa.b\E+`, []string{"a.b", "a.bb"}, []string{"axb"}},
		{"quoted to the end", `\Qa.b`, []string{"a.b"}, []string{"axb"}},
		{"named groups", `(?P<x>a)(?<y>b)`, []string{"ab"}, []string{"a"}},
		{"escapes", `\x41\x{1F600}\n\t\.\012`, []string{"A😀\n\t.\n"}, []string{"A"}},
		{"one to four bytes", `aé€😀`, []string{"aé€😀"}, []string{"aé€", "aé€\xf0\x9f\x98"}},
		{"range over lengths", `[~-𐀀]`, []string{"~", "\u0080", "߿", "ࠀ", "\uffff", "𐀀"}, []string{"}", "𐀁"}},
		{"range in the middle of a length", `[à-ü]`, []string{"à", "é", "ü"}, []string{"ß", "ý"}},
		{"range with ragged ends", `[\x{123}-\x{2345}]`, []string{"\u0123", "\u2345", "\u0fff"}, []string{"\u0122", "\u2346"}},
		{"case", `(?i)abc`, []string{"abc", "ABC", "aBc"}, []string{"abd"}},
		{"case of a part", `a(?i:b)c`, []string{"abc", "aBc"}, []string{"Abc", "abC"}},
		{"Kelvin sign", `(?i)k`, []string{"k", "K", "\u212a"}, []string{"x"}},
		{"long s", `(?i)S`, []string{"s", "S", "ſ"}, []string{"x"}},
		{"case of a class", `(?i)[j-l]`, []string{"J", "\u212a", "L"}, []string{"m"}},
		{"case beyond ASCII", `(?i)É[α-γ]`, []string{"éΒ", "Éβ"}, []string{"eβ"}},
		{"case without the flag", `k`, []string{"k"}, []string{"K", "\u212a"}},
		{"class of nothing", `[^\x00-\x{10FFFF}]`, nil, []string{"", "a", "\xff"}},
		{"class of nothing, optional", `a[^\x00-\x{10FFFF}]?`, []string{"a"}, []string{"", "ab"}},
		{"zero byte", `a\x00b`, []string{"a\x00b"}, []string{"ab"}},
		{"invalid bytes", `(?s).*`, []string{"a", "é"}, []string{"\xff", "a\xfe", "\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xf5\x80\x80\x80"}},
		{"invalid bytes and a class", `[^x]`, []string{"é"}, []string{"\xff", "\xc3", "\xbf", "\xe2\x82"}},
		{"replacement character is a character", `\x{FFFD}`, []string{"\ufffd"}, []string{"\xff"}},
		{"overlong and a dot", `.`, []string{"\xe0\x80\x80", "\xf0\x80\x80\x80"}, []string{"\xc0\x80"}},
		{"overlong and a smaller class", `[^é]`, []string{"e"}, []string{"\xe0\x80\x80", "\xf0\x80\x80\x80"}},
		{"beyond the last character and a dot", `.`, []string{"\xf4\xbf\xbf\xbf"}, []string{"\xf5\x80\x80\x80"}},
		{"beyond the last character and a smaller class", `[^é]`, []string{"\U0010ffff"}, []string{"\xf4\xbf\xbf\xbf"}},
		{"surrogate", `[^é]`, []string{"\xed\xa0\x80", "\xed\xbf\xbf"}, nil},
		{"surrogate and its class", `\p{Cs}`, []string{"\xed\xa0\x80"}, []string{"\xed\x9f\xbf"}},
		{"surrogate and letters", `\pL`, nil, []string{"\xed\xa0\x80"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Compile([]string{tt.pattern}, Default())
			if err != nil {
				t.Fatal(err)
			}
			requireSound(t, set)
			for _, input := range tt.match {
				if len(set.Match([]byte(input))) != 1 {
					t.Errorf("%q does not match %q", tt.pattern, input)
				}
			}
			for _, input := range tt.differ {
				if len(set.Match([]byte(input))) != 0 {
					t.Errorf("%q matches %q", tt.pattern, input)
				}
			}
		})
	}
}

func TestRefusedSyntax(t *testing.T) {
	tests := []struct {
		name    string
		pattern string
		want    string // in the message
	}{
		{"open group", `a(b`, `regular expression "a(b": missing closing ) at "a(b"`},
		{"any byte, which RE2 knows", `\C`, `invalid escape sequence at "\\C"`},
		{"group name beyond ASCII, which RE2 knows", `(?P<é>a)`, `invalid named capture`},
		{"text end before a newline", `a\Z`, `invalid escape sequence`},
		{"end of a quotation without one", `\E`, `invalid escape sequence`},
		{"possessive", `a*+`, `invalid nested repetition operator`},
		{"look-ahead", `(?=a)`, `invalid or unsupported Perl syntax`},
		{"backward reference", `(a)\1`, `invalid escape sequence`},
		{"too many repetitions", `a{1001}`, `invalid repeat count`},
		{"too many nested repetitions", `((a{0,100}){0,100}){0,100}`, `invalid repeat count`},
		{"nothing to repeat", `*a`, `missing argument to repetition operator`},
		{"unknown class", `\p{Klingon}`, `invalid character class range`},
		{"not UTF-8", "a\xff", `invalid UTF-8`},
		{"deep nesting", strings.Repeat("(", 1500) + strings.Repeat(")", 1500), `nests too deeply`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile([]string{`fine`, tt.pattern}, Default())
			var refused *PatternError
			var reason *syntax.Error
			if !errors.As(err, &refused) || refused.Index != 1 || !errors.As(err, &reason) {
				t.Fatalf("error %v, want one of the second pattern's syntax", err)
			}
			if !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 300 {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
		})
	}
}
