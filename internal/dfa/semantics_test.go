// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

// TestSemantics holds what was measured with RE2 (google-re2 1.1.20251105, Latin-1, fullmatch): it answers every row alike.
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
		{"dot is no newline", `a.b`, []string{"axb", "a\rb", "a\xffb"}, []string{"a\nb", "ab", "axxb", "aéb"}},
		{"dot is a byte", `a..b`, []string{"aéb", "a\xff\x80b"}, []string{"a\xe9b", "a€b"}},
		{"dot with s", `(?s)a.b`, []string{"a\nb"}, []string{"ab"}},
		{"negated class holds newline", `[^a]`, []string{"\n", "\xe9", "\x80"}, []string{"a", "", "é"}},
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
		{"Perl classes are ASCII", `\d\w\s`, []string{"1a ", "9_\t"}, []string{"\xb2a ", "1\xe9 ", "1a\xa0", "1a\v"}},
		{"their complements are not", `\D\W\S`, []string{"\xb2\xe9x"}, []string{"1\xe9x"}},
		{"POSIX class", `[[:alpha:]]+`, []string{"aZ"}, []string{"a1", "\xe9"}},
		{"negated POSIX class", `[[:^alpha:]]`, []string{"1", "\xe9"}, []string{"a", "é"}},
		{"Unicode class", `\pN+`, []string{"1", "\xb2\xbe1"}, []string{"a", "", "٣"}},
		{"Unicode script", `\p{Latin}+`, []string{"a\xe9\xaa"}, []string{"\xd7", "1"}},
		{"Unicode script beyond Latin-1", `\p{Greek}*`, []string{""}, []string{"α", "\xb5", "a"}},
		{"negated Unicode class", `\P{L}`, []string{"1", "\x80"}, []string{"a", "\xe9", "\xb5"}},
		{"quoted", `\Qa.b\E+`, []string{"a.b", "a.bb"}, []string{"axb"}},
		{"quoted to the end", `\Qa.b`, []string{"a.b"}, []string{"axb"}},
		{"named groups", `(?P<x>a)(?<y>b)`, []string{"ab"}, []string{"a"}},
		{"escapes", `\x41\x{e9}\xff\n\t\.\012`, []string{"A\xe9\xff\n\t.\n"}, []string{"Aé\xff\n\t.\n", "A"}},
		{"written in UTF-8", `aé€😀`, []string{"aé€😀"}, []string{"aé€", "aé€\xf0\x9f\x98"}},
		{"operator behind UTF-8 takes the last byte", `é+`, []string{"é", "\xc3\xa9\xa9"}, []string{"éé"}},
		{"class in UTF-8 is one of its bytes", `[é]`, []string{"\xc3", "\xa9"}, []string{"é", "\xe9"}},
		{"range in UTF-8 is one of bytes", `[à-ü]`, []string{"\xc3", "\xa0", "\xbc"}, []string{"à", "\x9f", "\xc4"}},
		{"bytes that are not UTF-8", "a\xff|[\xc0-\xe0]", []string{"a\xff", "\xc0", "\xe0"}, []string{"\xff", "\xbf", "\xe1"}},
		{"range beyond ASCII", `[~-\x{80}]`, []string{"~", "\x7f", "\x80"}, []string{"}", "\x81"}},
		{"range to the last byte", `[\xfe-\xff]`, []string{"\xfe", "\xff"}, []string{"\xfd", "\x00"}},
		{"case", `(?i)abc`, []string{"abc", "ABC", "aBc"}, []string{"abd"}},
		{"case of a part", `a(?i:b)c`, []string{"abc", "aBc"}, []string{"Abc", "abC"}},
		{"Kelvin sign", `(?i)k`, []string{"k", "K"}, []string{"x", "\u212a"}},
		{"long s", `(?i)S`, []string{"s", "S"}, []string{"x", "ſ"}},
		{"case of a class", `(?i)[j-l]`, []string{"J", "K", "L"}, []string{"m", "\u212a"}},
		{"case beyond Latin-1", `(?i)[\xff\xb5]`, []string{"\xff", "\xb5"}, []string{"\x78", "\x9c", "\xbc"}},
		{"no case beyond ASCII", `(?i)\xe9a`, []string{"\xe9A"}, []string{"\xc9a"}},
		{"no case of a negated letter beyond ASCII", `(?i)[^\xe9]`, []string{"\xc9"}, []string{"\xe9"}},
		{"no case of a letter in UTF-8", `(?i)é`, []string{"é"}, []string{"É", "\xe3\xa9"}},
		{"no case of a range that crosses", `(?i)[{-\xff]`, []string{"{", "\xff"}, []string{"s", "K"}},
		{"case of a Unicode class", `(?i)\p{Lu}`, []string{"e", "E", "\xc9"}, []string{"\xe9", "1"}},
		{"case of a negated Unicode class", `(?i)\P{Lu}`, []string{"1", "\xe9"}, []string{"a", "A", "\xc9"}},
		{"case of a Unicode class negated twice", `(?i)[^\P{^Lu}]`, []string{"1", "\xe9"}, []string{"a", "A", "\xc9"}},
		{"case without the flag", `k`, []string{"k"}, []string{"K"}},
		{"class of nothing", `[^\x00-\xff]`, nil, []string{"", "a", "\xff"}},
		{"class of nothing, optional", `a[^\x00-\xff]?`, []string{"a"}, []string{"", "ab"}},
		{"zero byte", `a\x00b`, []string{"a\x00b"}, []string{"ab"}},
		{"any bytes", `(?s).*`, []string{"", "é", "\xff", "a\xfe", "\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80"}, nil},
		{"any byte", `[^x]`, []string{"\xff", "\xc3", "\xbf"}, []string{"x", "é", "\xe2\x82"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireMatches(t, tt.pattern, tt.match, tt.differ)
		})
	}
}

// requireMatches fails the test unless a pattern matches all inputs of match, and none of differ.
func requireMatches(t *testing.T, pattern string, match, differ []string) {
	t.Helper()
	set, err := Compile([]string{pattern}, Default())
	if err != nil {
		t.Fatal(err)
	}
	requireSound(t, set)
	for _, input := range match {
		if len(set.Match([]byte(input))) != 1 {
			t.Errorf("%q does not match %q", pattern, input)
		}
	}
	for _, input := range differ {
		if len(set.Match([]byte(input))) != 0 {
			t.Errorf("%q matches %q", pattern, input)
		}
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
		{"group name beyond ASCII, which RE2 knows", "(?P<\xe9>a)", `invalid named capture`},
		{"text end before a newline", `a\Z`, `invalid escape sequence`},
		{"end of a quotation without one", `\E`, `invalid escape sequence`},
		{"possessive", `a*+`, `invalid nested repetition operator`},
		{"look-ahead", `(?=a)`, `invalid or unsupported Perl syntax`},
		{"backward reference", `(a)\1`, `invalid escape sequence`},
		{"too many repetitions", `a{1001}`, `invalid repeat count`},
		{"too many nested repetitions", `((a{0,100}){0,100}){0,100}`, `invalid repeat count`},
		{"nothing to repeat", `*a`, `missing argument to repetition operator`},
		{"unknown class", `\p{Klingon}`, `invalid character class range`},
		{"shown as written", `é(`, `missing closing ) at "é("`},
		{"not UTF-8, shown as written", "\xff(", `missing closing ) at "\xff("`},
		{"number beyond Latin-1", `a\x{100}`, `invalid escape sequence at "\\x{100}"`},
		{"range to beyond Latin-1", `[a-\x{100}]`, `invalid escape sequence at "\\x{100}"`},
		{"octal number beyond Latin-1", `\400`, `invalid escape sequence at "\\400"`},
		{"quotation in brackets", `[\Qa]`, `invalid escape sequence`},
		{"negated class with case in brackets", `[\P{Lu}]`, `invalid character class range at "\\P{Lu}"`},
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
