// SPDX-License-Identifier: Apache-2.0

// Package violating reports a violation in its first run, and would pass in its second.
package violating

import (
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/violation"
)

func TestWrongByteOnce(t *testing.T) {
	f, err := os.OpenFile(os.Getenv("XLB_VERDICT_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		violation.Errorf(t, "byte %d is another client's", 7)
	}
}
