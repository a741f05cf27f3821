// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"math/rand/v2"
	"strings"
)

// World draws tables and requests.
type World struct{ *rand.Rand }

// NewWorld draws the same sequence for the same seed.
func NewWorld(seed uint64) World { return World{rand.New(rand.NewPCG(seed, 0))} }

func (w World) oneIn(n int) bool { return w.IntN(n) == 0 }

func pick[T any](w World, from []T) T { return from[w.IntN(len(from))] }

// word is a short string of few letters, so that words are often related.
func (w World) word(letters string, shortest, longest int) string {
	b := make([]byte, shortest+w.IntN(longest-shortest+1))
	for i := range b {
		b[i] = letters[w.IntN(len(letters))]
	}
	return string(b)
}

// otherCase changes the case of some letters.
func (w World) otherCase(s string) string {
	b := []byte(s)
	for i, c := range b {
		if isLetter(c) && w.oneIn(2) {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// long is a string around the limits of what the kernel compares.
func (w World) long(limit int) string { return strings.Repeat("a", limit-2+w.IntN(5)) }

// expressions with values that match, or nearly do.
var expressions = []struct {
	source string
	values []string
}{
	{`a|b`, []string{"a", "b", "ab", "c"}},
	{`.*`, []string{"", "a", "\xff", "é", "a\xffb"}},
	{`[^a]*`, []string{"", "b", "a", "\xff", "é"}},
	{`\d+`, []string{"1", "12", "", "1a", "٣"}},
	{`(?i)aB`, []string{"ab", "AB", "aBa", ""}},
	{`^$`, []string{"", "a"}},
	{`a{2,3}`, []string{"a", "aa", "aaa", "aaaa"}},
	{`.+é`, []string{"aé", "é", "a\xc3", "aée"}},
	{`\x{e9}.?`, []string{"é", "éa", "\xe9", "\xe9a"}},
	{`.`, []string{"a", "é", "\xff", "\u212a", "ab", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd"}},
	{`(?i)k`, []string{"k", "K", "\u212a"}},
	{`\ba\b`, []string{"a", "ab"}},
	{`[[:^alpha:]]+`, []string{"1", "é", "a"}},
	{`\w+,\w+`, []string{"a,b", "a", "a,b,c"}},
	{`\pL`, []string{"a", "é", "1"}},
	{`a*?b`, []string{"b", "aab", "aa"}},
	{`^a|b$`, []string{"a", "b", "ab", "ac"}},
	{`\Qa.b\E`, []string{"a.b", "axb"}},
	{`(a)(?:b)?(?P<name>c)*`, []string{"a", "abc", "abcc", "c"}},
}

// pathExpressions likewise.
var pathExpressions = []struct {
	source string
	values []string
}{
	{`/a.*`, []string{"/a", "/ab/c", "/", "/b"}},
	{`/[ab]+/[0-9]{1,3}`, []string{"/a/1", "/ab/123", "/a/1234", "/a/"}},
	{`/a|/b`, []string{"/a", "/b", "/a|/b", "/ab"}},
	{`(?i)/AB`, []string{"/ab", "/AB", "/abc"}},
	{`/a%2[fF]b`, []string{"/a%2fb", "/a%2Fb", "/a/b"}},
	{`.*`, []string{"/", "/a/b", "//"}},
	{`/\w+`, []string{"/a", "/ab", "/a-b", "/"}},
	{`^/a$`, []string{"/a", "/a/", "/aa"}},
	{`[^/]*`, []string{"/", "/a"}},
	{`/a\.b`, []string{"/a.b", "/axb"}},
	{`/.{0,3}`, []string{"/", "/abc", "/abcd"}},
	{`/ab?/.+`, []string{"/a/b", "/ab/", "/ab/a", "/a/a/a"}},
	{`/a/b`, []string{"/a/b", "/a/bb", "/a"}},
	{`(?:/a)+`, []string{"/a", "/a/a", "/a/a/"}},
}
