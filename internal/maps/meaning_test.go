// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"os"
	"strings"
	"testing"
)

func TestMeaningsAreThoseOfTheDocumentation(t *testing.T) {
	const file = "../../docs/verdicts.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for v := range VerdictCount {
		if !IsHandover(v) {
			if meaning := HandoverMeaning(v); meaning != "" {
				t.Errorf("%s is no hand-over and means %q", VerdictName(v), meaning)
			}
			continue
		}
		if row := "\n| `" + VerdictName(v) + "` | H | " + HandoverMeaning(v) + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("%s has no row%s; let handoverMeanings say the same", file, row)
		}
	}
}
