// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// shownLines is how many lines of a failed test's output are shown: the last ones.
const shownLines = 15

// report writes what came of a step, and says whether it was green: no violation, no package that failed without a failed test, and each test
// passed in its last try.
func (r *results) report(to io.Writer) (green bool) {
	var passed, skipped int
	var flaky, failed []test
	for _, of := range r.order {
		if !of.root() {
			continue
		}
		switch last := r.last(of); {
		case last.action == "skip":
			skipped++
		case last.action == "fail":
			failed = append(failed, of)
		case r.failures(of) > 0:
			flaky = append(flaky, of)
			passed++
		default:
			passed++
		}
	}
	fmt.Fprintf(to, "%s: %d tests passed, %d of them in a further try; %d failed; %d were skipped, %d of them are left to make test-all\n",
		r.step, passed, len(flaky), len(failed)+len(r.unexplained), skipped, r.left)
	for _, of := range flaky {
		fmt.Fprintf(to, "flaky: %s\n", of)
		r.tell(to, of)
	}
	for _, of := range failed {
		fmt.Fprintf(to, "FAILED: %s, %s, in each of %d tries\n", r.step, of, len(r.tries[of]))
		r.tell(to, of)
	}
	for _, name := range slices.Sorted(maps.Keys(r.unexplained)) {
		fmt.Fprintf(to, "FAILED: %s, %s, outside its tests or amid one\n", r.step, test{Package: name})
		show(to, r.unexplained[name])
	}
	for _, v := range r.violations {
		fmt.Fprintf(to, "VIOLATION: %s, %s\n", r.step, v)
	}
	return len(failed)+len(r.unexplained)+len(r.violations) == 0
}

// tell shows the output of the last failed try of a test, and of its subtests.
func (r *results) tell(to io.Writer, root test) {
	for _, of := range r.order {
		if of != root && (of.Package != root.Package || !strings.HasPrefix(of.Test, root.Test+"/")) {
			continue
		}
		for _, try := range slices.Backward(r.tries[of]) {
			if try.action != "fail" {
				continue
			}
			if lines := said(try.output); len(lines) > 0 {
				fmt.Fprintf(to, "  %s\n", of.Test)
				show(to, lines)
			}
			break
		}
	}
}

func (r *results) last(of test) try { return r.tries[of][len(r.tries[of])-1] }

func (r *results) failures(of test) (n int) {
	for _, try := range r.tries[of] {
		if try.action == "fail" {
			n++
		}
	}
	return n
}

// said is a test's output without the lines of package testing.
func said(output []string) (lines []string) {
	for line := range strings.Lines(strings.Join(output, "")) {
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && !strings.HasPrefix(trimmed, "=== ") && !strings.HasPrefix(trimmed, "--- ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func show(to io.Writer, output []string) {
	lines := said(output)
	if more := len(lines) - shownLines; more > 0 {
		fmt.Fprintf(to, "    (%d lines before)\n", more)
		lines = lines[more:]
	}
	for _, line := range lines {
		fmt.Fprintf(to, "    %s\n", strings.TrimSpace(line))
	}
}
