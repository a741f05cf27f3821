// SPDX-License-Identifier: Apache-2.0

package model

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/golden"
)

var large = flag.Bool("model.wide", false, "check the wider scenarios, too: minutes, and some gigabytes")

// Beyond so many states a wider scenario has become too large.
const mostWideStates = 200_000_000

func searched(t *testing.T, sc scenario, r rules, most int) result {
	t.Helper()
	got, err := explore(&machine{sc, r}, most)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestNoInterleavingMixesBytesOrLosesASlot(t *testing.T) {
	check := func(sc scenario, most int) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			got := searched(t, sc, after, most)
			t.Logf("%d states, %d steps between them, %d deep", got.states, got.steps, got.depth)
			if got.wrong != "" {
				t.Errorf("%s, behind these steps:\n%s", got.wrong, strings.Join(got.trace, "\n"))
			}
		})
	}
	for _, sc := range scenarios {
		check(sc, mostStates)
	}
	if *large {
		for _, sc := range wider {
			check(sc, mostWideStates)
		}
	}
}

func scenarioOf(t *testing.T, name string) scenario {
	t.Helper()
	for _, sc := range scenarios {
		if sc.name == name {
			return sc
		}
	}
	t.Fatalf("no scenario %q", name)
	return scenario{}
}

// A model that finds nothing wrong with the programs of before could not find anything: what was
// seen of them it must show.
func TestAccountingBeforeTheMoveIsFoundWrong(t *testing.T) {
	for _, row := range []struct{ name, scenario, wrong string }{
		{"early answer", "early", "the server of slot 0 reads unit 0 of request 0 of client 1"},
		{"early answer over TCP", "early, other host", "the server of slot 0 reads unit 0 of request 0 of client 1"},
		{"cut response", "cut response", "client 1 reads unit 1 of response 0 of client 0"},
		{"cut request", "cut request", "the daemon reads unit 1 of request 0 of client 0 as the beginning of a request"},
		{"forged rest", "forged rest, other host", "the server of slot 0 frames a request by unit 1 of request 0 of client 0, which no program has framed"},
		{"two threads", "threads", "the server of slot 0 reads unit 1 of request 0 of client 0"},
		{"urgent byte", "urgent", "the server of slot 0 reads unit 0 of request 0 of client 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			requireWrong(t, row.name, row.scenario, before, row.wrong)
		})
	}
}

// requireWrong compares what is found wrong, and the way there with the file of that name.
func requireWrong(t *testing.T, name, scenario string, r rules, wrong string) {
	t.Helper()
	got := searched(t, scenarioOf(t, scenario), r, mostStates)
	if got.wrong != wrong {
		t.Errorf("found %q, want %q", got.wrong, wrong)
	}
	golden.Compare(t, "testdata/"+strings.ReplaceAll(name, " ", "-")+".txt", strings.Join(append(got.trace, got.wrong), "\n")+"\n")
}

// What was seen of hand-overs between programs and daemon, it shows without the rules that ended that.
func TestHandOversOfBeforeAreFoundWrong(t *testing.T) {
	for _, row := range []struct {
		name, scenario string
		without        func(*rules)
		wrong          string
	}{
		{
			"rest of a body", "answers that close", func(r *rules) { r.Proved = false },
			"the daemon reads unit 1 of request 0 of client 0 as the beginning of a request",
		},
		{
			"innocent client", "ends", func(r *rules) { r.Filled = false },
			"client 0 is told of the end of a lease that it has not had",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := after
			row.without(&r)
			requireWrong(t, row.name, row.scenario, r, row.wrong)
		})
	}
}

// A tracepoint's program that looks whose a send is, and then goes by what stands there, was found wrong by reading it: another thread may
// have taken the send over in between.
func TestSettlingTheSendOfAnotherIsFoundWrong(t *testing.T) {
	const scenario = "two server threads"
	r := after
	r.Taken = false
	requireWrong(t, "claim of another", scenario, r, "the connection of client 1 is ended, which has done nothing")
	r = after
	r.Leaves = false
	requireWrong(t, "send of another", scenario, r, "client 0 waits for ever")
}

// needs names for each rule a scenario that is wrong without it.
var needs = map[string]string{
	"Settled":  "early",
	"Cuts":     "cut response",
	"Shorts":   "short, other host",
	"Senders":  "threads",
	"Alone":    "threads, long sends",
	"Framed":   "forged rest, other host",
	"Declined": "threads, other host",
	"Named":    "connected elsewhere",
	"Shown":    "threads, long sends",
	"Urgent":   "urgent",
	"Own":      "spills, other host",
	"Means":    "two server threads",
	"Grace":    "ends",
	"Held":     "goroutines",
	"Next":     "pipelined",
	"Replies":  "short",
	"Open":     "ends",
	"Forgets":  "two server threads",
	"Taken":    "two server threads",
	"Leaves":   "two server threads",
	"Spent":    "cut request",
	"Answered": "pipelined, spills",
	"Proved":   "answers that close",
	"Moved":    "short, pipelined",
	"Filled":   "ends",
}

func TestEachRuleIsNeeded(t *testing.T) {
	all := reflect.TypeFor[rules]()
	for f := range all.NumField() {
		name := all.Field(f).Name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := after
			reflect.ValueOf(&without).Elem().Field(f).SetBool(false)
			got := searched(t, scenarioOf(t, needs[name]), without, mostStates)
			if got.wrong == "" {
				t.Fatalf("%q: nothing is wrong in %d states without the rule", needs[name], got.states)
			}
			t.Logf("%q: %s, behind %d steps", needs[name], got.wrong, len(got.trace))
		})
	}
}
