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

func TestArchitectureTellsTheRule(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for parent, rows := range map[string]map[string][]string{"internal": layers, "bench": benchLayers} {
		want := map[string][]string{}
		for name, allowed := range rows {
			want[name] = slices.Sorted(slices.Values(allowed))
		}
		if diff := cmp.Diff(want, toldOf(t, parent, string(text))); diff != "" {
			t.Errorf("ARCHITECTURE.md says otherwise than rule.go of folders of %s/ (-rule.go +page):\n%s", parent, diff)
		}
	}
}

// toldOf reads the rows of tables about folders of parent: what they are, and what they may import.
func toldOf(t *testing.T, parent, text string) map[string][]string {
	t.Helper()
	row := regexp.MustCompile(`(?m)^\| (\[` + parent + `/.*?) \| .* \| ([^|]*) \|$`)
	// Not one below it.
	folder := regexp.MustCompile(`\]\(` + parent + `/(\w+)\)`)
	told := map[string][]string{}
	for _, row := range row.FindAllStringSubmatch(text, -1) {
		folders, lists := folder.FindAllStringSubmatch(row[1], -1), strings.Split(row[2], "; ")
		if len(lists) != 1 && len(lists) != len(folders) {
			t.Errorf("%d folders and %d lists of imports: %s", len(folders), len(lists), row[0])
			continue
		}
		for i, f := range folders {
			told[f[1]] = importsOf(lists[min(i, len(lists)-1)])
		}
	}
	return told
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
