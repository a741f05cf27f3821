// SPDX-License-Identifier: Apache-2.0

package lab

import "testing"

func TestSamplesOfAMetricAreSummedByTheirLabels(t *testing.T) {
	const text = "# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3e1\nab{x=\"1\"} 500\nb 7\n"
	for _, tt := range []struct {
		name, labels string
		want         float64
		fails        bool
	}{
		{"a", "", 32, false}, {"a", `x="1"`, 2, false}, {"b", "", 7, false}, {"ab", "", 500, false}, {"a", `x="3"`, 0, true}, {"c", "", 0, true},
	} {
		if got, err := sumOf(text, tt.name, tt.labels); got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s with %s: %v, %v; want %v, and an error: %t", tt.name, tt.labels, got, err, tt.want, tt.fails)
		}
	}
}
