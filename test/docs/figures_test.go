// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
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
