// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"bytes"
	"strings"
	"testing"
)

func TestLinesHaveAPointForEachStep(t *testing.T) {
	var svg bytes.Buffer
	lines := []Line{{"one", "red", true, []Point{{0, 10}, {1024, 200}}}, {"other", "grey", false, []Point{{1024, 3}}}}
	if err := Lines(&svg, "title", "bytes", lines); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(svg.String(), "<circle"); n != 3 {
		t.Errorf("%d points, want 3", n)
	}
	if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
		t.Errorf("the plot has no place for something:\n%s", svg.String())
	}
}
