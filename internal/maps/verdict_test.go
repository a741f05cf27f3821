// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"os"
	"strings"
	"testing"
)

func TestEveryVerdictHasItsOwnNameAndIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]Verdict{}
	for v := range VerdictCount {
		name := VerdictName(v)
		if name == "unknown" {
			t.Errorf("verdict %d has no name", v)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("verdicts %d and %d are both named %q", other, v, name)
		}
		seen[name] = v
		row := "| `" + name + "` |  |"
		if IsHandover(v) {
			row = "| `" + name + "` | H |"
		}
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/verdicts.md has no row that begins %q", row)
		}
	}
}
