// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"testing"
)

func TestFastShareCountsOnlyTheMeasurement(t *testing.T) {
	before := parseServed("xlb_requests_total{path=\"fast\"} 100\nxlb_requests_total{path=\"slow\"} 50\n")
	after := parseServed("# TYPE xlb_requests_total counter\n" +
		"xlb_requests_total{cluster=\"a\",path=\"fast\"} 150\n" +
		"xlb_requests_total{cluster=\"b\",path=\"fast\"} 1.9e+02\n" +
		"xlb_requests_total{cluster=\"a\",path=\"slow\"} 110\n" +
		"xlb_handovers_total{reason=\"pool_empty\"} 7\n")
	got := after.shareSince(before)
	if got == nil || *got != 0.8 {
		t.Errorf("fast share = %v, want 0.8", got)
	}
	if got := after.shareSince(after); got != nil {
		t.Errorf("fast share of no requests = %v, want nil", *got)
	}
}
