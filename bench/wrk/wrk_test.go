// SPDX-License-Identifier: Apache-2.0

package wrk

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

func TestWrkReportIsFoundInItsOutput(t *testing.T) {
	output := "Running 1s test @ http://127.0.0.1:9001/\n  1 threads and 2 connections\n" +
		"Requests/sec:  3.00\n" +
		`REPORT {"requests":3,"errors":1,"duration_us":1000000,"latency":[[20,2],[31,1]]}` + "\n"
	got, err := Parse(output, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := loadgen.Report{Requests: 3, Errors: 1, DurationUS: 1e6, Latency: loadgen.Histogram{20: 2, 31: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse() (-want +got):\n%s", diff)
	}
}

func TestWrkOutputWithoutReportIsAnError(t *testing.T) {
	for _, output := range []string{"", "unable to connect\n", "REPORT {\"requests\":\n"} {
		if _, err := Parse(output, 1); err == nil {
			t.Errorf("Parse(%q): no error", output)
		}
	}
}

// correct is what wrk's stats_correct() does to a histogram.
func correct(h loadgen.Histogram, expected int64) {
	for n := expected * 2; n <= slices.Max(slices.Collect(maps.Keys(h))); n++ {
		count := h[n]
		for m := n - expected; count > 0 && m > expected; m -= expected {
			h[m] += count
		}
	}
}

func TestCorrectionOfWrkIsUndoneExactly(t *testing.T) {
	measured := loadgen.Histogram{8: 60, 10: 20, 20: 4, 25: 3, 31: 2, 47: 1, 300: 2}
	requests := measured.Count()
	const expected = 10
	corrected := maps.Clone(measured)
	correct(corrected, expected)
	if corrected.Count() == requests {
		t.Fatal("the example is not corrected at all")
	}
	report := loadgen.Report{Requests: requests, DurationUS: requests / 2 * expected, Latency: corrected}
	undoCorrection(&report, 2)
	if diff := cmp.Diff(measured, report.Latency); diff != "" {
		t.Errorf("after correction and undoing (-want +got):\n%s", diff)
	}
}

func TestUncorrectedReportStays(t *testing.T) {
	report := loadgen.Report{Requests: 10, DurationUS: 100, Latency: loadgen.Histogram{5: 8, 100: 2}}
	undoCorrection(&report, 1)
	if diff := cmp.Diff(loadgen.Histogram{5: 8, 100: 2}, report.Latency); diff != "" {
		t.Errorf("undoCorrection() (-want +got):\n%s", diff)
	}
}
