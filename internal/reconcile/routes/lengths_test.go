// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"
	"strings"
	"testing"
)

func TestLengthsOfKeys(t *testing.T) {
	of := func(lengths ...int) (keys []string) {
		for _, n := range lengths {
			keys = append(keys, strings.Repeat("a", n))
		}
		return keys
	}
	for _, c := range []struct {
		name   string
		before pathLengths
		keys   []string
		want   pathLengths
		fits   bool
	}{
		{"none", 0, nil, 0, true},
		{"the empty prefix", 0, of(0), 0x01, true},
		{"prefixes and whole paths", 0, []string{"/", "/ab", "/ac", "/\x00", "/abcd\x00"}, 0x0204ff, true},
		{"more than before", 0x03ff, of(4, 1), 0x020305ff, true},
		{"none of the old ones goes", 0x020305ff, of(4), 0x020305ff, true},
		{"the longest prefix", 0, of(88), 0x59, true},
		{"a prefix too long", 0, of(1, 89), 0, false},
		{"the longest whole path", 0, []string{strings.Repeat("a", 87) + "\x00"}, 0xff, true},
		{"a whole path too long", 0, []string{strings.Repeat("a", 88) + "\x00"}, 0, false},
		{"eight lengths", 0, of(1, 2, 3, 4, 5, 6, 7, 8), 0x0203040506070809, true},
		{"whole paths as the ninth", 0x0203040506070809, []string{"a\x00"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var entries []pathEntry
			for _, k := range c.keys {
				entries = append(entries, pathEntry{key: k})
			}
			got, fits := c.before.with(entries)
			if fits != c.fits || fits && got != c.want {
				t.Errorf("lengths %#x, %v, want %#x, %v", got, fits, c.want, c.fits)
			}
		})
	}
}

func TestBeginningsOfAKey(t *testing.T) {
	var got []string
	pathLengths(0x01020405ff).beginnings("/ab\x00", func(text string) { got = append(got, text) })
	if want := []string{"/ab", "/", ""}; !slices.Equal(got, want) {
		t.Errorf("beginnings %q, want %q", got, want)
	}
}

func TestWhichVirtualHostsAreInTheHash(t *testing.T) {
	for _, c := range []struct {
		name          string
		keys, lengths int
		want          bool
	}{
		{"no key", 0, 1, true},
		{"a few keys of few lengths", 3, 3, true},
		{"a few keys of more lengths", 4, 4, false},
		{"nearly many keys", ManyPaths - 1, 4, false},
		{"many keys", ManyPaths, 4, true},
		{"many keys of as many lengths as are tried", 1000, 8, true},
		{"too many lengths", 1000, 9, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var entries []pathEntry
			for i := range c.keys {
				entries = append(entries, pathEntry{key: strings.Repeat("a", i%c.lengths)})
			}
			r := &Reconciler{manyPaths: ManyPaths}
			if _, got := r.inHash(entries); got != c.want {
				t.Errorf("in the hash: %v, want %v", got, c.want)
			}
		})
	}
}
