// SPDX-License-Identifier: Apache-2.0

package plural

import "testing"

func TestNumbersGoWithTheirNoun(t *testing.T) {
	for _, tt := range []struct {
		n          int
		noun, want string
	}{
		{0, "problem", "0 problems"},
		{1, "problem", "1 problem"},
		{2, "problem", "2 problems"},
		{1, "address", "1 address"},
		{2, "address", "2 addresses"},
		{2, "regular expression", "2 regular expressions"},
		{2, "entry", "2 entries"},
		{1, "entry", "1 entry"},
		{2, "key", "2 keys"},
		{2, "switch", "2 switches"},
	} {
		if got := Of(tt.n, tt.noun); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if got := Verb(1, "is", "are") + " " + Verb(uint64(0), "is", "are"); got != "is are" {
		t.Errorf("verbs: got %q", got)
	}
}
