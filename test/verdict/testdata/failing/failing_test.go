// SPDX-License-Identifier: Apache-2.0

// Package failing has a test that always fails.
package failing

import (
	"testing"

	"github.com/xlb-project/xlb/test/suite"
)

func TestAlwaysFails(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Error("got 1, want 2") })
	t.Run("other part", func(*testing.T) {})
}

func TestLong(t *testing.T) { suite.Long(t, suite.Slow) }
