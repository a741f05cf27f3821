// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/violation"
)

// events are lines of `go test -json`, of package p.
func events(list ...event) string {
	var b strings.Builder
	for _, e := range list {
		if e.Package == "" && e.ImportPath == "" {
			e.Package = module + "p"
		}
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func begin(test string) event { return event{Action: "run", Test: test} }

func says(test, text string) event { return event{Action: "output", Test: test, Output: text + "\n"} }

func passes(test string) event { return event{Action: "pass", Test: test} }

func fails(test string) event { return event{Action: "fail", Test: test} }

var start = event{Action: "start"}

func TestJudgesWhatComesOfAStep(t *testing.T) {
	tests := []struct {
		name, events string
		green        bool
		want         string
	}{
		{"passed", events(start, begin("TestA"), says("TestA", "=== RUN TestA"), passes("TestA"), passes("")), true,
			"step: 1 tests passed, 0 of them in a further try; 0 failed; 0 were skipped, 0 of them are left to make test-all\n"},
		{"left to the long suite", events(start, begin("TestA"), says("TestA", "a_test.go:3: left to make test-all: it takes many seconds"),
			event{Action: "skip", Test: "TestA"}, passes("")), true,
			"step: 0 tests passed, 0 of them in a further try; 0 failed; 1 were skipped, 1 of them are left to make test-all\n"},
		{"flaky", events(start, begin("TestA"), says("TestA", "a_test.go:3: late"), fails("TestA"), fails(""), start, begin("TestA"), passes("TestA"), passes("")), true,
			"step: 1 tests passed, 1 of them in a further try; 0 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"flaky: p.TestA\n  TestA\n    a_test.go:3: late\n"},
		{"failed in each try", events(start, begin("TestA"), begin("TestA/x"), says("TestA/x", "a_test.go:3: wrong"), fails("TestA/x"), fails("TestA"), fails(""),
			start, begin("TestA"), begin("TestA/x"), says("TestA/x", "a_test.go:3: wrong again"), fails("TestA/x"), fails("TestA"), fails("")), false,
			"step: 0 tests passed, 0 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"FAILED: step, p.TestA, in each of 2 tries\n  TestA/x\n    a_test.go:3: wrong again\n"},
		{"a violation, then passed", events(start, begin("TestA"), says("TestA", "    a_test.go:3: VIOLATION: a byte"), fails("TestA"), fails(""),
			start, begin("TestA"), passes("TestA"), passes("")), false,
			"step: 1 tests passed, 1 of them in a further try; 0 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"flaky: p.TestA\n  TestA\n    a_test.go:3: VIOLATION: a byte\nVIOLATION: step, p.TestA: a byte\n"},
		{"a package that fails behind its tests, then passed", events(start, begin("TestA"), passes("TestA"), says("", "a cgroup is left"), fails(""), start, passes("")), false,
			"step: 1 tests passed, 0 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"FAILED: step, p, outside its tests\n    a cgroup is left\n"},
		{"killed amid a test behind a failed one, then passed", events(start, begin("TestA"), fails("TestA"), begin("TestB"), says("TestB", "b_test.go:3: begins"),
			says("TestB", "fatal error: all goroutines are asleep"), fails(""), start, begin("TestA"), passes("TestA"), passes("")), false,
			"step: 1 tests passed, 1 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"flaky: p.TestA\nFAILED: step, p, amid TestB\n    fatal error: all goroutines are asleep\n    (1 lines more)\n"},
		{"failed, then skipped", events(start, begin("TestA"), says("TestA", "a_test.go:3: wrong"), fails("TestA"), fails(""),
			start, begin("TestA"), event{Action: "skip", Test: "TestA"}, passes("")), false,
			"step: 0 tests passed, 0 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"FAILED: step, p.TestA, in each of 2 tries\n  TestA\n    a_test.go:3: wrong\n"},
		{"a data race, then passed", events(start, begin("TestA"), says("TestA", "=================="), says("TestA", "WARNING: DATA RACE"), fails("TestA"), fails(""),
			start, begin("TestA"), passes("TestA"), passes("")), false,
			"step: 1 tests passed, 1 of them in a further try; 0 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"flaky: p.TestA\n  TestA\n    WARNING: DATA RACE\n    (1 lines more)\nVIOLATION: step, p.TestA: a data race\n"},
		{"a violation in two events", events(start, begin("TestA"), event{Action: "output", Test: "TestA", Output: "aaaVIOLA"}, says("TestA", "TION: a byte"), fails("TestA"), fails(""),
			start, begin("TestA"), passes("TestA"), passes("")), false,
			"step: 1 tests passed, 1 of them in a further try; 0 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"flaky: p.TestA\n  TestA\n    aaaVIOLATION: a byte\nVIOLATION: step, p.TestA: a byte\n"},
		{"does not compile", events(event{Action: "build-output", ImportPath: "p [p.test]", Output: "a.go:1: undefined: x\n"},
			start, event{Action: "fail", FailedBuild: "p [p.test]"}), false,
			"step: 0 tests passed, 0 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"FAILED: step, p, outside its tests\n    a.go:1: undefined: x\n"},
		{"killed amid a test", events(start, begin("TestA"), says("TestA", "a_test.go:3: begins")), false,
			"step: 0 tests passed, 0 of them in a further try; 1 failed; 0 were skipped, 0 of them are left to make test-all\n" +
				"FAILED: step, p, amid TestA\n    a_test.go:3: begins\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := read("step", strings.NewReader(tt.events))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if green := r.report(&got); green != tt.green {
				t.Errorf("green: got %v, want %v", green, tt.green)
			}
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("report (-want +got):\n%s", unmarked(diff))
			}
		})
	}
}

// unmarked is a text in which this test's own run finds no violation.
func unmarked(text string) string { return strings.ReplaceAll(text, violation.Marker, "(violation) ") }

func TestRefusesWhatIsNotOfGoTest(t *testing.T) {
	if _, err := read("step", strings.NewReader("ok p 0.1s\n")); err == nil {
		t.Error("text is taken for events")
	}
}

// TestStepsOfScripts runs scripts/gotest on packages that fail in each of the ways.
func TestStepsOfScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".tools/bin/gotestsum")); err != nil {
		if os.Getenv("XLB_REQUIRE_CLIENTS") != "" {
			t.Fatalf("gotestsum is missing: run scripts/install-deps test: %v", err)
		}
		t.Skipf("gotestsum is missing: %v", err)
	}
	tests := []struct {
		name  string
		green bool
		lines []string // among the output
	}{
		{"flaky", true, []string{"flaky: test/verdict/testdata/flaky.TestSecondRunPasses"}},
		{"violating", false, []string{
			"verdict-violating: a violation was reported: nothing is run again",
			"VIOLATION: verdict-violating, test/verdict/testdata/violating.TestWrongByteOnce: byte 7 is another client's",
		}},
		{"leaving", false, []string{"FAILED: verdict-leaving, test/verdict/testdata/leaving, outside its tests"}},
		{"failing", false, []string{
			"verdict-failing: 0 tests passed, 0 of them in a further try; 1 failed; 1 were skipped, 1 of them are left to make test-all",
			"FAILED: verdict-failing, test/verdict/testdata/failing.TestAlwaysFails, in each of 3 tries",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			step := "verdict-" + tt.name
			t.Cleanup(func() { os.Remove(filepath.Join(root, "bin/test-results", step+".json")) })
			c := exec.Command(filepath.Join(root, "scripts/gotest"), step, "-short", "--", "./test/verdict/testdata/"+tt.name)
			c.Env = append(os.Environ(), "XLB_VERDICT_FILE="+filepath.Join(t.TempDir(), "ran"))
			output, err := c.CombinedOutput()
			if green := err == nil; green != tt.green {
				t.Errorf("exit code 0: got %v, want %v: %v", green, tt.green, err)
			}
			for _, want := range tt.lines {
				if !strings.Contains(string(output), want+"\n") {
					t.Errorf("output lacks %q:\n%s", unmarked(want), unmarked(string(output)))
				}
			}
		})
	}
}
