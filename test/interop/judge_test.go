// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// caseNamed returns the case of that name.
func caseNamed(t *testing.T, name string) testCase {
	t.Helper()
	for _, c := range testCases {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return testCase{}
}

func TestInabilitiesNameWhatExists(t *testing.T) {
	names := func(parties []party) (all []string) {
		for _, p := range parties {
			all = append(all, p.name)
		}
		return append(all, "")
	}
	for _, i := range inabilities {
		if !slices.Contains(names(clients), i.client) || !slices.Contains(names(servers), i.server) || (i.client == "") == (i.server == "") {
			t.Errorf("client %q, server %q: want one that exists", i.client, i.server)
		}
		for _, name := range i.cases {
			caseNamed(t, name)
		}
		if i.reason == "" {
			t.Errorf("client %q, server %q: no reason", i.client, i.server)
		}
	}
}

// right is the answer that a case wants of Go's client.
func right(t *testing.T, c testCase, f files) answer {
	t.Helper()
	_, digest, err := f.concatenated(c.download)
	if err != nil {
		t.Fatal(err)
	}
	got := answer{Statuses: map[string]int{}, SHA256: digest, Length: largeSize, Trailer: trailerValue, Continued: true}
	for status, n := range c.statuses {
		got.Statuses[strings.Replace(status, "2xx", "201", 1)] = n
	}
	if c.upload == "" {
		return got
	}
	content, err := os.ReadFile(filepath.Join(f.served, c.upload))
	if err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string][]byte{c.name: content, c.name + ".trailer": []byte(trailerValue)} {
		if err := os.WriteFile(filepath.Join(f.store, name), kept, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestJudgeAcceptsTheRightAnswerOnly(t *testing.T) {
	f := newFiles(t)
	for _, c := range testCases {
		if err := c.judge("go", "go", right(t, c, f), f); err != nil {
			t.Errorf("%s: the right answer: %v", c.name, err)
		}
	}
	tests := []struct {
		name, testCase string
		spoil          func(got *answer, f files) error
	}{
		{"one request less", get100, func(got *answer, _ files) error { got.Statuses["200"]--; return nil }},
		{"another status", down, func(got *answer, _ files) error { got.Statuses = map[string]int{"206": 1}; return nil }},
		{"another body", down, func(got *answer, _ files) error { got.SHA256 = strings.Repeat("0", 64); return nil }},
		{"an error", down, func(got *answer, _ files) error { got.Error = "reset"; return nil }},
		{"304 missing", notModified, func(got *answer, _ files) error { got.Statuses = map[string]int{"200": 3}; return nil }},
		{"no length of HEAD", head, func(got *answer, _ files) error { got.Length = 0; return nil }},
		{"no 100 Continue", expect, func(got *answer, _ files) error { got.Continued = false; return nil }},
		{"no trailer, asked for", trailerDown, func(got *answer, _ files) error { got.Trailer = ""; return nil }},
		{"no trailer, not asked for", chunkedDown, func(got *answer, _ files) error { got.Trailer = ""; return nil }},
		{"nothing uploaded", up, func(_ *answer, f files) error { return os.Remove(filepath.Join(f.store, up)) }},
		{"half uploaded", up, func(_ *answer, f files) error { return os.Truncate(filepath.Join(f.store, up), largeSize/2) }},
		{"no trailer kept", trailerUp, func(_ *answer, f files) error { return os.Remove(filepath.Join(f.store, trailerUp+".trailer")) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := caseNamed(t, tt.testCase)
			got := right(t, c, f)
			if err := tt.spoil(&got, f); err != nil {
				t.Fatal(err)
			}
			if c.judge("go", "go", got, f) == nil {
				t.Error("the answer was accepted")
			}
		})
	}
}

func TestMatrixShowsFailuresAndShares(t *testing.T) {
	fine := &cell{Topology: "same host", Client: "curl", Server: "nginx"}
	fine.add(result{Case: get100, Outcome: outcomeOK, counters: counters{Fast: 199, Slow: 1}})
	fine.add(result{Case: trailerUp, Outcome: outcomeCannot, Reason: "none"})
	broken := &cell{Topology: "same host", Client: "curl", Server: "go"}
	broken.add(result{Case: up, Outcome: outcomeFailed, Reason: "a reset", WithoutXLB: outcomeOK})
	broken.add(result{Case: down, Outcome: outcomeFailed, Reason: "another body", WithoutXLB: outcomeOK, counters: counters{Slow: 1}})
	var text bytes.Buffer
	if err := (&matrix{Cells: []*cell{fine, broken}}).writeText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ok 99%", "up,down 0%", "FAILED same host: curl to go: up\n  a reset\n  without XLB: ok"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the matrix has no %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "cross host") {
		t.Errorf("the matrix has a topology without cells:\n%s", text.String())
	}
}
