// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"testing"
)

// TestHostRule holds what Envoy 1.40 does; test/routes compares both on random tables.
func TestHostRule(t *testing.T) {
	anyPort, matching, dot := HostRule{AnyPort: true}, HostRule{Port: 80}, HostRule{TrailingDot: true}
	both := HostRule{Port: 80, TrailingDot: true}
	tests := []struct {
		rule       HostRule
		host, want string
	}{
		{HostRule{}, "a.:80", "a.:80"},
		{anyPort, "a:80", "a"},
		{anyPort, "a:081", "a"},
		{anyPort, "a:", "a:"},
		{anyPort, "a:x", "a:x"},
		{anyPort, "[::1]:80", "[::1]"},
		{anyPort, "[::1]", "[::1]"},
		{anyPort, "a.", "a."},
		{matching, "A:80", "A"},
		{matching, "a:080", "a"},
		{matching, "a:81", "a:81"},
		{dot, "a.", "a"},
		{dot, "a..", "a."},
		{dot, "a.:80", "a:80"},
		{dot, "a:80.", "a:80"},
		{dot, "a.b:80", "a.b:80"},
		{both, "a.:80", "a"},
		{both, "a.:81", "a:81"},
	}
	for _, tt := range tests {
		if got := tt.rule.Apply(tt.host); got != tt.want {
			t.Errorf("%+v of %q: got %q, want %q", tt.rule, tt.host, got, tt.want)
		}
	}
}
