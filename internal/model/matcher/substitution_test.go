// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/re2"
)

// What is found character by character is what regexp finds at once.
func TestSubstitutionsAtAPaceReplaceTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	pick := func(from []string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	atoms := []string{"a", "b", "a*", "b?", "(a|ab)", "(b)*", "(a*?)", ".", `\b`, `\B`, "^", "$", "(?m:^)", "(?i:A)", "(c|)", "[ab]+", "/", "|", "(?s:.)", `\Qa.`, `\Q`, `\E`, `\Qb\E`}
	texts := []string{"a", "b", "c", "/", " ", "\n", "ab", "A"}
	tried := 0
	for range 20_000 {
		source := pick(atoms, 1+random.IntN(5))
		s, err := NewSubstitution(source, "x")
		if err != nil {
			continue
		}
		value := pick(texts, random.IntN(9))
		re, err := re2.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		tried++
		if diff := cmp.Diff(re.FindAllStringSubmatchIndex(value, -1), s.find(Unpaced, value), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q in %q (-regexp +find):\n%s", source, value, diff)
		}
	}
	if tried < 10_000 {
		t.Errorf("%d expressions were tried", tried)
	}
}

// What finds the first match finds the ones behind it, too, however the expression is written.
func TestSubstitutionThatIsTakenFindsAllMatches(t *testing.T) {
	for _, regex := range []string{`\Qa.b`, `a\Q.b`, `a\Q)`, `\Q`, strings.Repeat("(", 990) + "a" + strings.Repeat(")", 990), strings.Repeat("(", 997) + "a" + strings.Repeat(")", 997), strings.Repeat("(", 998) + "a" + strings.Repeat(")", 998)} {
		s, err := NewSubstitution(regex, "x")
		if err != nil {
			continue
		}
		value := strings.Repeat("a.b", 5000) + "a)"
		re, err := re2.Compile(regex)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Replace(value), s.substitute(value, re.FindAllStringSubmatchIndex(value, -1)); got != want {
			t.Errorf("%.20q: got %.40q, want %.40q", regex, got, want)
		}
	}
}

func TestLongSubstitutionsPause(t *testing.T) {
	const long = 60 << 10
	for _, tt := range []struct{ name, regex, value, want string }{
		{"nothing is found", `a.{100}b`, strings.Repeat("a", long), strings.Repeat("a", long)},
		{"one match", `^/(.*)/x$`, "/" + strings.Repeat("a", long) + "/x", "1"},
		{"many matches", `\b[a-c]{1,60}/`, strings.Repeat("abc/", long/4), strings.Repeat("1", long/4)},
	} {
		s, err := NewSubstitution(tt.regex, "1")
		if err != nil {
			t.Fatal(err)
		}
		pauses, steps := 0, 0
		got := s.ReplaceAt(func(n int) bool { pauses++; steps += n; return true }, tt.value)
		if got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, len(got), len(tt.want))
		}
		if least := s.cost * long / quick / 2; pauses < max(least, 2) || steps/pauses > 2*quick {
			t.Errorf("%s: %d pauses for %d steps, want %d at least", tt.name, pauses, steps, least)
		}
	}
}
