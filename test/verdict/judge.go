// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A failure shows so many of the lines that were printed: the first and the last ones, or those from its reason on.
const firstLines, lastLines, reasonLines = 5, 15, 20

// reasons begin the line that says why a process has ended.
var reasons = []string{"panic: ", "fatal error: ", dataRace}

// report writes what came of a step, and says whether it was green: no violation, no package that failed without a failed test, and each test
// passed in its last try, or was skipped in its only one.
func (r *results) report(to io.Writer) (green bool) {
	var passed, skipped int
	var flaky, failed []test
	for _, of := range r.order {
		if !of.root() {
			continue
		}
		switch last, failures := r.last(of), r.failures(of); {
		case last.action == "pass" && failures > 0:
			flaky = append(flaky, of)
			passed++
		case last.action == "pass":
			passed++
		case last.action == "skip" && failures == 0:
			skipped++
		default:
			failed = append(failed, of)
		}
	}
	fmt.Fprintf(to, "%s: %d tests passed, %d of them in a further try; %d failed; %d were skipped, %d of them are left to make test-all\n",
		r.step, passed, len(flaky), len(failed)+len(r.breakdowns), skipped, r.left)
	for _, of := range flaky {
		fmt.Fprintf(to, "flaky: %s\n", of)
		r.tell(to, of)
	}
	for _, of := range failed {
		fmt.Fprintf(to, "FAILED: %s, %s, in each of %d tries\n", r.step, of, len(r.tries[of]))
		r.tell(to, of)
	}
	for _, b := range r.breakdowns {
		fmt.Fprintf(to, "FAILED: %s, %s\n", r.step, &b)
		show(to, b.output)
	}
	for _, v := range r.violations {
		fmt.Fprintf(to, "VIOLATION: %s, %s\n", r.step, v)
	}
	return len(failed)+len(r.breakdowns)+len(r.violations) == 0
}

// final says why no test of the step may be run again; "" where it may.
func (r *results) final() string {
	switch {
	case len(r.violations) > 0:
		return "a violation was reported"
	case len(r.breakdowns) > 0:
		return fmt.Sprintf("%s has failed", &r.breakdowns[0])
	}
	return ""
}

func (b *breakdown) String() string {
	name := test{Package: b.Package}.String()
	if len(b.amid) == 0 {
		return name + ", outside its tests"
	}
	return fmt.Sprintf("%s, amid %s", name, strings.Join(b.amid, ", "))
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
	first, last := lines, []string(nil)
	if at := slices.IndexFunc(lines, isReason); at >= 0 {
		first = lines[at:min(len(lines), at+reasonLines)]
	} else if len(lines) > firstLines+lastLines {
		first, last = lines[:firstLines], lines[len(lines)-lastLines:]
	}
	for _, line := range first {
		fmt.Fprintf(to, "    %s\n", strings.TrimSpace(line))
	}
	if more := len(lines) - len(first) - len(last); more > 0 {
		fmt.Fprintf(to, "    (%d lines more)\n", more)
	}
	for _, line := range last {
		fmt.Fprintf(to, "    %s\n", strings.TrimSpace(line))
	}
}

func isReason(line string) bool {
	return slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(strings.TrimSpace(line), r) })
}
