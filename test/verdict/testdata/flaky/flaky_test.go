// SPDX-License-Identifier: Apache-2.0

// Package flaky has a test that fails in its first run.
package flaky

import (
	"os"
	"testing"
)

func TestSecondRunPasses(t *testing.T) {
	// The file is there from the second run on.
	f, err := os.OpenFile(os.Getenv("XLB_VERDICT_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		t.Error("the first run fails")
	}
}

func TestPasses(*testing.T) {}
