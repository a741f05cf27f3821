// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"slices"
	"strings"
	"testing"
)

// columns of each table of threats.
var columns = []string{"Threat", "Bound", "Mechanism", "Test"}

// rowsOf returns the cells of a page's tables, without the lines that rule them.
func rowsOf(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.Trim(line, "|-: ") == "" {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// unproved says what is wrong with a row of threats; sources are those of all tests. Empty: nothing is.
func unproved(row []string, sources string) string {
	if len(row) != len(columns) || slices.Contains(row, "") {
		return "want a threat, its bound, the mechanism and a test"
	}
	tests := named.FindAllString(row[len(row)-1], -1)
	if len(tests) == 0 {
		return "names no test"
	}
	for _, name := range tests {
		if !strings.Contains(sources, "func "+name+"(") {
			return "names " + name + ", which is nowhere"
		}
	}
	return ""
}

// Each threat to the daemon has a bound, a mechanism, and a test that is there.
func TestEachThreatHasABoundAndATest(t *testing.T) {
	pages, sources := tree(t)
	found := 0
	for _, p := range pages {
		if p.path != "docs/reference/threats.md" {
			continue
		}
		for _, row := range rowsOf(p.text) {
			if slices.Equal(row, columns) {
				continue
			}
			found++
			if fault := unproved(row, sources); fault != "" {
				t.Errorf("%s: %q: %s", p.path, row, fault)
			}
		}
	}
	if found == 0 {
		t.Error("docs/reference/threats.md has no row")
	}
}

func TestThreatsWithoutProofAreFound(t *testing.T) {
	const sources = "func TestThere(t *testing.T) {"
	for _, tt := range []struct {
		line string
		want string
	}{
		{"| a | b | c | TestThere |", ""},
		{"| a | b | TestThere |", "want a threat, its bound, the mechanism and a test"},
		{"| a |  | c | TestThere |", "want a threat, its bound, the mechanism and a test"},
		{"| a | b | c | it is known |", "names no test"},
		{"| a | b | c | TestThere, TestGone |", "names TestGone, which is nowhere"},
	} {
		if got := unproved(rowsOf(tt.line)[0], sources); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}
