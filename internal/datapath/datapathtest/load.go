// SPDX-License-Identifier: Apache-2.0

// Package datapathtest loads the fast path for tests.
package datapathtest

import (
	"testing"

	"github.com/xlb-project/xlb/internal/datapath"
)

// Load loads the fast path, attached to nothing, until the test ends.
func Load(t testing.TB) *datapath.Datapath {
	t.Helper()
	d, err := datapath.Load(datapath.Options{FastPath: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
