// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/tools"
)

func TestMissingToolsAreFatalOnlyWhenNamed(t *testing.T) {
	missing := tools.Tools{XLB: "/nonexistent/xlb"}
	chosen, skipped, err := Choose(missing, []string{cases.All})
	if err != nil {
		t.Fatal(err)
	}
	if skipped[XLB] == "" || chosen[0].Name != Direct {
		t.Errorf("chosen %v, skipped %v, want xlb skipped and direct first", chosen, skipped)
	}
	if _, _, err := Choose(missing, []string{Direct, XLB}); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("xlb by name: %v, want the remedy", err)
	}
}
