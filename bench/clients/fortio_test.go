// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

func TestFortioResultIsRead(t *testing.T) {
	got, err := parseFortio(`{"ActualDuration": 2000000000, "RetCodes": {"200": 5, "503": 1, "-1": 1},
		"DurationHistogram": {"Count": 7, "Data": [
			{"Start": 0.000010, "End": 0.000011, "Count": 4},
			{"Start": 0.000100, "End": 0.000110, "Count": 3}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := loadgen.Report{Requests: 5, Errors: 2, DurationUS: 2_000_000, Latency: loadgen.Histogram{11: 4, 102: 1, 105: 1, 108: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if _, err := parseFortio("Fortio 1.68.2 running"); err == nil {
		t.Error("a text without a result is read")
	}
}
