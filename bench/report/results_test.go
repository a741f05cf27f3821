// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xlb-project/xlb/test/golden"
)

// rendered are committed results that this version has to render as they stand; bench/README.md quotes them.
var rendered = []string{
	"2026-11-23-cases", "2026-11-23-changes", "2026-11-23-connections", "2026-11-23-density", "2026-11-23-long", "2026-11-23-sidecars", "2026-11-23-sizes",
	"2026-11-29-reference",
}

func TestCommittedResultsAreRenderedAsTheyStand(t *testing.T) {
	for _, run := range rendered {
		t.Run(run, func(t *testing.T) {
			committed, out := filepath.Join("..", "results", run), t.TempDir()
			r, err := Read(committed)
			if err != nil {
				t.Fatal(err)
			}
			r.Conclude()
			if err := r.Save(out); err != nil {
				t.Fatal(err)
			}
			files, err := os.ReadDir(out)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(filepath.Join(out, file.Name()))
				if err != nil {
					t.Fatal(err)
				}
				golden.Compare(t, filepath.Join(committed, file.Name()), string(text))
			}
		})
	}
}
