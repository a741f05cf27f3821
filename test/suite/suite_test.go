// SPDX-License-Identifier: Apache-2.0

package suite

import "testing"

func TestSeedIsFixedUnlessItIsNamed(t *testing.T) {
	t.Setenv(SeedVariable, "")
	if got := Seed(t); got != 1 {
		t.Errorf("without %s: got %d, want 1", SeedVariable, got)
	}
	t.Setenv(SeedVariable, "7")
	if got := Seed(t); got != 7 {
		t.Errorf("%s=7: got %d, want 7", SeedVariable, got)
	}
	t.Setenv(SeedVariable, "random")
	if a, b := Seed(t), Seed(t); a == b {
		t.Errorf("%s=random: got %d twice", SeedVariable, a)
	}
}
