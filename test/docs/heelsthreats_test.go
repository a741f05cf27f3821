// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`(Test[A-Z]\\w*)`")

// Each line of a threat model names a test that HEELS' own packages have, or says that nothing covers it.
func TestThreatsHaveATestOrSayThatTheyAreNotCovered(t *testing.T) {
	sources := ""
	for _, dir := range []string{"internal/heels", "internal/heels/*", "test/heels"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources += string(text)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/heels-threats.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what ") {
			continue
		}
		rows++
		names := testName.FindAllStringSubmatch(line, -1)
		if len(names) == 0 && !strings.Contains(line, "**not covered**") {
			t.Errorf("neither a test nor \"not covered\": %s", line)
		}
		for _, name := range names {
			if !strings.Contains(sources, "func "+name[1]+"(") {
				t.Errorf("there is no %s: %s", name[1], line)
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d lines, want the whole page", rows)
	}
}
