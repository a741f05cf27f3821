// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// failing notes that a test has failed, in place of failing this one.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "a.golden")
	compare := func(got string) (failed bool) {
		f := &failing{TB: t}
		Compare(f, file, got)
		return f.failed
	}
	*update = true
	if compare("one\n") {
		t.Error("with -update the file is what it is compared with")
	}
	*update = false
	if compare("one\n") {
		t.Error("the same text differs")
	}
	if !compare("two\n") {
		t.Error("another text is taken for the same")
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "one\n" {
		t.Errorf("without -update the file is left alone: got %q, %v", kept, err)
	}
}
