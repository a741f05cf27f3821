// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// tableRow is a row of "Where things are" about folders of internal/: what they are, and what they may import.
	tableRow = regexp.MustCompile(`(?m)^\| (\[internal/.*?) \| .* \| ([^|]*) \|$`)
	// folder of internal/, not one below it.
	folder = regexp.MustCompile(`\]\(internal/(\w+)\)`)
)

func TestArchitectureTellsTheRule(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, row := range tableRow.FindAllStringSubmatch(string(text), -1) {
		folders, lists := folder.FindAllStringSubmatch(row[1], -1), strings.Split(row[2], "; ")
		if len(lists) != 1 && len(lists) != len(folders) {
			t.Errorf("%d folders and %d lists of imports: %s", len(folders), len(lists), row[0])
			continue
		}
		for i, f := range folders {
			told[f[1]] = importsOf(lists[min(i, len(lists)-1)])
		}
	}
	want := map[string][]string{}
	for name, allowed := range layers {
		want[name] = slices.Sorted(slices.Values(allowed))
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("ARCHITECTURE.md says otherwise than layers, by folder (-layers +page):\n%s", diff)
	}
}

// importsOf is a list as the page writes it.
func importsOf(list string) []string {
	switch list {
	case "nothing of ours":
		return nil
	case "all":
		return []string{anything}
	}
	return slices.Sorted(slices.Values(strings.Split(list, ", ")))
}
