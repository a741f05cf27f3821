// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test has got with a committed file. The flag -update has it write the file instead: look at the difference before
// you commit that.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Compare fails the test where got is not what the file holds. With -update it writes the file, and its folder, first.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (-update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s, which -update rewrites (-want +got):\n%s", file, diff)
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
