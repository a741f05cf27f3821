// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"slices"
	"testing"
)

func TestEachRoundBeginsWithAnother(t *testing.T) {
	for _, tt := range []struct {
		name   string
		chosen []string
		cycle  int
		want   []string
	}{
		{"the first", []string{"a", "b", "c"}, 0, []string{"a", "b", "c"}},
		{"the second", []string{"a", "b", "c"}, 1, []string{"b", "c", "a"}},
		{"the fourth", []string{"a", "b", "c"}, 3, []string{"a", "b", "c"}},
		{"some, chosen in another order", []string{"c", "a"}, 1, []string{"c", "a"}},
		{"one", []string{"b"}, 5, []string{"b"}},
		{"none", nil, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Order([]string{"a", "b", "c"}, tt.chosen, tt.cycle); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
