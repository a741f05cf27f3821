// SPDX-License-Identifier: Apache-2.0

package record

import "testing"

func TestSpreadIsOfValuesInAnyOrder(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   Spread
		ok     bool
	}{
		{nil, Spread{}, false},
		{[]float64{3}, Spread{3, 3, 3}, true},
		{[]float64{9, 1, 5}, Spread{5, 1, 9}, true},
		{[]float64{9, 1, 5, 6}, Spread{5.5, 1, 9}, true},
	} {
		if got, ok := SpreadOf(tt.values); got != tt.want || ok != tt.ok {
			t.Errorf("of %v: %+v, %t; want %+v, %t", tt.values, got, ok, tt.want, tt.ok)
		}
	}
}
