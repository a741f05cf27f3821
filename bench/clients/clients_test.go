// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConnectionsAreSplitEvenly(t *testing.T) {
	for _, tt := range []struct {
		connections int
		want        []int
	}{{1, []int{1}}, {2, []int{1, 1}}, {7, []int{4, 3}}, {32, []int{16, 16}}} {
		if diff := cmp.Diff(tt.want, split(tt.connections, 2)); diff != "" {
			t.Errorf("split(%d, 2) (-want +got):\n%s", tt.connections, diff)
		}
	}
}
