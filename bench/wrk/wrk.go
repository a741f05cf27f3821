// SPDX-License-Identifier: Apache-2.0

// Package wrk reads what wrk(1) measured, exactly.
package wrk

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

// Script is what wrk runs to write the report that Parse reads; for its --script. More may be appended.
//
//go:embed wrk.lua
var Script []byte

// reportMark begins the line that the script writes.
const reportMark = "REPORT "

// Parse reads the report from the output of a wrk that had the given number
// of connections, with latencies that wrk made up taken away.
func Parse(output string, connections int) (loadgen.Report, error) {
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(line, reportMark)
		if !ok {
			continue
		}
		var report loadgen.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return report, fmt.Errorf("report of wrk: %w", err)
		}
		undoCorrection(&report, int64(connections))
		return report, nil
	}
	return loadgen.Report{}, errors.New("wrk wrote no report: is its Lua support intact?")
}

// undoCorrection takes away the latencies that wrk invents. wrk assumes that its
// connections meant to send at an even pace, and adds samples for the requests
// that a slow response kept from being sent (stats_correct() in its stats.c).
// These clients are closed loops: they meant no such thing, and the other load
// generator reports what was measured.
//
// For every measured latency n of at least 2e, wrk adds n-e, n-2e, ... above e,
// where e is the mean time per request of one connection. From the highest
// latency down this can be undone exactly. A report without additions, known by
// its count, stays as it is.
func undoCorrection(report *loadgen.Report, connections int64) {
	perConnection := (report.Requests + report.Errors) / connections
	if perConnection == 0 || report.Latency.Count() <= report.Requests+report.Errors {
		return
	}
	expected := report.DurationUS / perConnection
	if expected == 0 {
		return
	}
	latency := report.Latency
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(latency))) {
		measured := latency[n]
		for m := n - expected; n >= 2*expected && m > expected; m -= expected {
			latency[m] -= measured
		}
	}
	maps.DeleteFunc(latency, func(_, count int64) bool { return count <= 0 })
}
