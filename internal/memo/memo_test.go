// SPDX-License-Identifier: Apache-2.0

package memo

import (
	"fmt"
	"testing"
)

func TestResultsStayForTwoRounds(t *testing.T) {
	tests := []struct {
		name string
		// used says in which of the rounds after the first the result is asked for.
		used []bool
		want bool
	}{
		{"used in the round before", []bool{true}, true},
		{"not used for one round", []bool{false}, true},
		{"not used for two rounds", []bool{false, false}, false},
		{"used in every other round", []bool{false, true, false, true, false}, true},
		{"used, and then no more", []bool{true, true, false, false}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := New[string, int](10)
			m.Put("a", 7, 1)
			m.EndRound()
			for _, used := range tt.used {
				if used {
					m.Get("a")
				}
				m.EndRound()
			}
			value, known := m.Get("a")
			if known != tt.want || known && value != 7 {
				t.Errorf("result %d, known %t, want known %t", value, known, tt.want)
			}
			if known != (m.Size() > 0) {
				t.Errorf("size %d, known %t", m.Size(), known)
			}
		})
	}
}

func TestSizeStaysWithinTheLimit(t *testing.T) {
	m := New[string, int](100)
	for round := range 50 {
		for i := range 20 {
			m.Put(fmt.Sprintf("%d of %d", i, round), i, 9)
			if m.Size() > 100 {
				t.Fatalf("size %d, want at most 100", m.Size())
			}
		}
		m.EndRound()
	}
	for range 2 {
		m.EndRound()
	}
	if m.Size() != 0 {
		t.Errorf("size %d of nothing", m.Size())
	}
}

func TestWhatIsTakenOverKeepsItsResults(t *testing.T) {
	m := New[string, int](100)
	m.Put("a", 7, 1)
	m.EndRound()
	var uses Uses
	m.Note(&uses)
	m.Get("a")
	m.Put("b", 8, 1)
	m.Note(nil)
	m.Put("c", 9, 1)
	for range 5 {
		m.EndRound()
		m.UseAgain(&uses)
	}
	for key, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if _, known := m.Get(key); known != want {
			t.Errorf("%s: known %t, want %t", key, known, want)
		}
	}
}
