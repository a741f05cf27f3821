// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/quote"
)

// Each figure of a page that names a run is what the run says, and the page says of which code that was.
func TestFiguresAreThoseOfTheirRuns(t *testing.T) {
	pages := &quote.Pages{Root: root, Age: quote.GitAge(root)}
	paths, err := pages.Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		for _, fault := range pages.Check(path, readPage(t, path)) {
			t.Errorf("%s\nscripts/figures --update writes what the runs say", fault)
		}
	}
}

// Where pages say how fast, cheap and small XLB is, each number names its run.
func TestFiguresNameTheirRuns(t *testing.T) {
	for _, tt := range []struct{ path, text string }{
		{"README.md", quote.Section(readPage(t, "README.md"), "Why")},
		{"bench/README.md", readPage(t, "bench/README.md")},
		{"docs/heels.md", quote.Section(readPage(t, "docs/heels.md"), "Measured")},
	} {
		if tt.text == "" {
			t.Errorf("%s: the section is gone", tt.path)
		}
		for _, fault := range quote.Unquoted(tt.text) {
			t.Errorf("%s: %s", tt.path, fault)
		}
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	// measured is a figure that somebody has measured: a rate, or a time that no configuration gives.
	measured = regexp.MustCompile(`[0-9] (requests a second|µs|ns)\b|\bmedians? of\b`)
	// sourced is where such a figure can be had again, or that it cannot.
	sourced = regexp.MustCompile(`Test[A-Z]|-bench [A-Z]|_test\.go|bench/results|<!--(figure|table)|\]\(\.\./test/|measured once`)
)

// unsourced returns the paragraphs, with the table behind each, that have a measured figure and say nothing of where it is from.
func unsourced(text string) (faults []string) {
	above := ""
	for part := range strings.SplitSeq(text, "\n\n") {
		context := part
		if strings.HasPrefix(part, "|") {
			context = above + part
		}
		if measured.MatchString(part) && !sourced.MatchString(context) {
			faults = append(faults, part)
		}
		above = part
	}
	return faults
}

// A figure of docs/ that was measured names its run, its test or its benchmark, or says that it was measured once.
func TestMeasuredFiguresSayWhereTheyAreFrom(t *testing.T) {
	pages, _ := tree(t)
	for _, p := range pages {
		if filepath.Dir(p.path) != "docs" {
			continue
		}
		for _, fault := range unsourced(p.text) {
			t.Errorf("%s: names neither a test, a benchmark nor a run, nor says \"measured once\": %s", p.path, fault)
		}
	}
}

func TestMeasuredFiguresWithoutASourceAreFound(t *testing.T) {
	for _, tt := range []struct {
		text   string
		faults int
	}{
		{"It takes 5 µs.", 1},
		{"It takes 5 µs (measured once).", 0},
		{"It takes 5 µs (`go test ./x -bench Y`).", 0},
		{"`TestThat` bounds it:\n\n| a | 5 ns |", 0},
		{"As such:\n\n| a | 5 ns |", 1},
		{"It waits for 5 s.", 0},
		{"It serves 5 requests a second.", 1},
	} {
		if got := unsourced(tt.text); len(got) != tt.faults {
			t.Errorf("%q: got %q, want %d", tt.text, got, tt.faults)
		}
	}
}
