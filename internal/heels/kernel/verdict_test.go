// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Operators look verdicts up in docs/heels.md: it explains each.
func TestVerdictsAreExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "heels.md"))
	if err != nil {
		t.Fatal(err)
	}
	for v, name := range VerdictNames {
		if name == "" {
			t.Errorf("verdict %d has no name", v)
		}
		if v != 0 && !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/heels.md does not explain %s", name)
		}
	}
}
