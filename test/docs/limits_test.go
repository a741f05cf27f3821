// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// testFile is a link to a file of tests.
var testFile = regexp.MustCompile(`\]\([^)]*_test\.go\)`)

// Each row of what hostile and slow peers can do names tests that are there.
func TestEachBoundOnPeersNamesItsTests(t *testing.T) {
	_, sources := tree(t)
	_, section, found := strings.Cut(readPage(t, "docs/limits.md"), "\n## Hostile and slow peers\n")
	if !found {
		t.Fatal("docs/limits.md has no section on hostile and slow peers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows, above := 0, ""
	for _, row := range rowsOf(section) {
		last := row[len(row)-1]
		if last == "asserted by" {
			continue
		}
		if last == "the same" {
			last = above
		}
		above = last
		rows++
		names := named.FindAllString(last, -1)
		if len(names) == 0 && !testFile.MatchString(last) {
			t.Errorf("names no test: %s", row[0])
		}
		for _, name := range names {
			if !strings.Contains(sources, "func "+name+"(") {
				t.Errorf("%s: names %s, which is nowhere", row[0], name)
			}
		}
	}
	if rows < 25 {
		t.Errorf("%d rows, want those of both tables", rows)
	}
}

// A page that counts what a test plays, or what the page itself lists, counts right.
func TestPagesCountRight(t *testing.T) {
	text := readPage(t, "docs/limits.md")
	if want := fmt.Sprintf("runs %d client programs", len(programs.Habits())); !strings.Contains(text, want) {
		t.Errorf("docs/limits.md: want %q", want)
	}
	_, section, _ := strings.Cut(text, "\n## Applications\n")
	section, _, _ = strings.Cut(section, "\n### ")
	const listed = 18 // "eighteen things", without the heading of the table
	if got := len(rowsOf(section)) - 1; got != listed || !strings.Contains(text, "hardly: [eighteen things](#applications)") {
		t.Errorf("docs/limits.md: %d things that applications can notice are listed, want %d, and the word for it at the beginning", got, listed)
	}
}
