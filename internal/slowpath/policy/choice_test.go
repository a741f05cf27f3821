// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

// What Envoy 1.40 takes for a number.
func TestDrawOfAHeader(t *testing.T) {
	const chance = 7
	for _, tt := range []struct {
		name   string
		values []string
		want   uint64
	}{
		{"none", nil, chance},
		{"number", []string{"42"}, 42},
		{"zeros in front", []string{"007"}, 7},
		{"plus", []string{"+3"}, 3},
		{"largest", []string{"18446744073709551615"}, 1<<64 - 1},
		{"too large", []string{"18446744073709551616"}, chance},
		{"negative", []string{"-0"}, chance},
		{"hexadecimal", []string{"0x10"}, chance},
		{"underscore", []string{"1_0"}, chance},
		{"fraction", []string{"1.0"}, chance},
		{"empty", []string{""}, chance},
		{"twice", []string{"1", "1"}, chance},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := drawOf(tt.values, chance); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
