// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
)

func TestMergedReportHasAllRuns(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	// The third has figures of its own, which the others lack.
	kept, brief, chain := exampleReport(), exampleReport(), exampleReport()
	for i := range brief.Measurements {
		brief.Measurements[i].Load = cases.ShortLived(32)
		chain.Measurements[i].Load = cases.Chained(50, 9)
	}
	for i, r := range []Report{kept, brief, chain} {
		if err := r.Save(dirs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var read []Report
	for _, dir := range dirs {
		r, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, r)
	}
	out := t.TempDir()
	merged, err := Merge(read)
	if err == nil {
		err = merged.Save(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"keepalive, 32 connections", "short, 32 connections", "connections/s, xlb / direct at least 0.8: measured 1.30", "begun 2026-01-02 03:04, 1 rounds of 1s"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestReportsThatDoNotGoTogetherAreRefused(t *testing.T) {
	elsewhere := exampleReport()
	elsewhere.Machine.CPUs = 64
	if _, err := Merge([]Report{exampleReport(), elsewhere}); err == nil || !strings.Contains(err.Error(), "machines") {
		t.Errorf("reports of two machines: %v", err)
	}
	if _, err := Merge([]Report{exampleReport(), exampleReport()}); err == nil || !strings.Contains(err.Error(), "in two reports") {
		t.Errorf("the same load twice: %v", err)
	}
}
