// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

// event is a line of `go test -json` (cmd/internal/test2json).
type event struct {
	Action, Package, Test, Output string
	// ImportPath and FailedBuild are those of a package that does not compile.
	ImportPath, FailedBuild string
}

// module begins the import path of each package.
const module = "github.com/xlb-project/xlb/"

// dataRace begins a report of the race detector. Races are rare by nature: one is enough.
const dataRace = "WARNING: DATA RACE"

// test names a test, or a package where Test is "".
type test struct{ Package, Test string }

func (t test) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(t.Package, module)+"."+t.Test, ".")
}

// root reports whether the test is no subtest.
func (t test) root() bool { return t.Test != "" && !strings.Contains(t.Test, "/") }

// try is the end of one run of a test, and what it printed.
type try struct {
	action string // pass, fail or skip
	output []string
}

// breakdown is a package's failure that no failed test explains.
type breakdown struct {
	Package string
	// amid are the tests that had begun and not ended.
	amid   []string
	output []string
}

// results are the outcomes of one step.
type results struct {
	step string
	// tries of each test, in order; order has the tests by the end of their first one.
	tries      map[test][]try
	order      []test
	breakdowns []breakdown
	violations []string
	left       int // tests that are left to make test-all
}

// maxLine bounds a line of a file of events, in bytes: the output of a test may have long lines.
const maxLine = 16 << 20

func read(step string, from io.Reader) (*results, error) {
	r := reader{
		results: results{step: step, tries: map[test][]try{}},
		output:  map[test][]string{}, running: map[test]bool{}, failed: map[string]bool{},
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: a line of `go test -json` is expected: %w: %.200s", step, err, lines.Bytes())
		}
		r.take(&e)
	}
	r.finish()
	return &r.results, lines.Err()
}

// reader reads events in their order.
type reader struct {
	results
	output  map[test][]string // of the run under way
	running map[test]bool     // tests that have begun and not ended, and packages
	failed  map[string]bool   // packages a test of which has failed in the run under way
}

func (r *reader) take(e *event) {
	of := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		of = test{Package: e.ImportPath}
		r.output[of] = append(r.output[of], e.Output)
	case "output":
		r.output[of] = append(r.output[of], e.Output)
	case "start":
		r.failed[e.Package], r.running[of] = false, true
	case "run":
		r.running[of] = true
	case "pass", "fail", "skip":
		r.ends(of, e)
	}
}

func (r *reader) ends(of test, e *event) {
	if of.Test == "" {
		r.packageEnds(e)
		return
	}
	output := r.printed(of)
	if e.Action == "fail" {
		r.failed[e.Package] = true
	}
	if e.Action == "skip" && strings.Contains(strings.Join(output, ""), suite.Marker) {
		r.left++
	}
	if len(r.tries[of]) == 0 {
		r.order = append(r.order, of)
	}
	r.tries[of] = append(r.tries[of], try{e.Action, output})
}

// printed takes what a test, or a package, has printed until its end, and looks for violations in it.
func (r *reader) printed(of test) []string {
	output := r.output[of]
	delete(r.output, of)
	delete(r.running, of)
	// A line may have come in two events.
	for line := range strings.Lines(strings.Join(output, "")) {
		if _, what, is := strings.Cut(line, violation.Marker); is {
			r.violations = append(r.violations, fmt.Sprintf("%s: %s", of, strings.TrimSpace(what)))
		}
		if strings.Contains(line, dataRace) {
			r.violations = append(r.violations, fmt.Sprintf("%s: a data race", of))
		}
	}
	return output
}

// packageEnds notes the failure of a package, unless a failed test explains it. A test that was under way when the process ended, by a panic,
// a signal or the time limit, is no failed test: those behind it have not run.
func (r *reader) packageEnds(e *event) {
	amid, output := r.amid(e.Package)
	output = append(output, r.printed(test{Package: e.Package})...)
	if e.FailedBuild != "" {
		output = append(r.printed(test{Package: e.FailedBuild}), output...)
	}
	if len(amid) > 0 || e.Action == "fail" && !r.failed[e.Package] {
		r.breakdowns = append(r.breakdowns, breakdown{e.Package, amid, output})
	}
}

// amid returns the tests of a package that have begun and not ended, and what they have printed.
func (r *reader) amid(name string) (names, output []string) {
	for _, of := range slices.SortedFunc(maps.Keys(r.running), func(a, b test) int { return strings.Compare(a.Test, b.Test) }) {
		if of.Package == name && of.Test != "" {
			names = append(names, of.Test)
			output = append(output, r.printed(of)...)
		}
	}
	return names, output
}

// finish takes packages that have begun and not ended for failed ones: go test was killed.
func (r *reader) finish() {
	for _, of := range slices.SortedFunc(maps.Keys(r.running), func(a, b test) int { return strings.Compare(a.Package, b.Package) }) {
		if of.Test == "" {
			r.packageEnds(&event{Action: "fail", Package: of.Package})
		}
	}
}
