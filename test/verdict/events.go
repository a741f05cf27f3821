// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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

// results are the outcomes of one step.
type results struct {
	step string
	// tries of each test, in order; order has the tests by the end of their first one.
	tries map[test][]try
	order []test
	// unexplained are packages that failed in a run in which none of their tests did, with their output.
	unexplained map[string][]string
	violations  []string
	left        int // tests that are left to make test-all
}

// maxLine bounds a line of a file of events, in bytes: the output of a test may have long lines.
const maxLine = 16 << 20

func read(step string, from io.Reader) (*results, error) {
	r := reader{
		results: results{step: step, tries: map[test][]try{}, unexplained: map[string][]string{}},
		output:  map[test][]string{}, failed: map[string]bool{},
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
	output map[test][]string // of the run under way
	failed map[string]bool   // packages a test of which has failed in the run under way
}

func (r *reader) take(e *event) {
	of := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		of = test{Package: e.ImportPath}
		r.output[of] = append(r.output[of], e.Output)
	case "output":
		r.output[of] = append(r.output[of], e.Output)
		if _, what, is := strings.Cut(e.Output, violation.Marker); is {
			r.violations = append(r.violations, fmt.Sprintf("%s: %s", of, strings.TrimSpace(what)))
		}
	case "start":
		r.failed[e.Package] = false
	case "pass", "fail", "skip":
		r.ends(of, e)
	}
}

func (r *reader) ends(of test, e *event) {
	output := r.output[of]
	delete(r.output, of)
	if of.Test == "" {
		r.packageEnds(e, output)
		return
	}
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

func (r *reader) packageEnds(e *event, output []string) {
	if e.Action != "fail" || r.failed[e.Package] {
		return
	}
	if e.FailedBuild != "" {
		output = append(r.output[test{Package: e.FailedBuild}], output...)
	}
	// A test that was under way when the process ended, by a panic or the time limit.
	for under, printed := range r.output {
		if under.Package == e.Package && under.Test != "" {
			output = append(printed, output...)
			delete(r.output, under)
		}
	}
	r.unexplained[e.Package] = output
}

// finish takes tests that have begun and not ended for failed ones: the process was killed.
func (r *reader) finish() {
	for of, output := range r.output {
		if of.root() {
			r.unexplained[of.Package] = append(r.unexplained[of.Package], output...)
		}
	}
}
