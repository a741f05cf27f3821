// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func newLog() (*Log, *bytes.Buffer) {
	var text bytes.Buffer
	return New(slog.New(slog.NewTextHandler(&text, nil))), &text
}

// serve calls f as a goroutine that serves a client would, and reports whether it was ended by the recovery.
func serve(l *Log, f func()) (ended bool) {
	defer l.Recover("a test", func() { ended = true })
	f()
	return false
}

//go:noinline
func faulty() { panic("of faulty") }

func outOfRange(list []int) func() {
	behind := len(list)
	return func() { list[behind]++ }
}

func TestPanicIsCountedAndLoggedOnceForEachPlace(t *testing.T) {
	l, text := newLog()
	if serve(l, func() {}) || l.Count() != 0 {
		t.Error("without a panic something was recovered")
	}
	for range 3 {
		if !serve(l, faulty) || !serve(l, outOfRange(nil)) || !serve(l, func() { panic(nil) }) {
			t.Error("what was served was not ended")
		}
	}
	if got := l.Count(); got != 9 {
		t.Errorf("counted %d, want 9", got)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("logged %d lines, want one for each of three places:\n%s", len(lines), text)
	}
	for i, want := range []string{"crash.faulty:", "outOfRange", "TestPanic"} {
		if line := lines[i]; !strings.Contains(line, "place=github.com/xlb-project/xlb/internal/crash.") || !strings.Contains(line, want) || !strings.Contains(line, "stack=") || !strings.Contains(line, `serving="a test"`) {
			t.Errorf("line %d does not name %s:\n%.300s", i, want, line)
		}
	}
	if !strings.Contains(lines[0], `panic="of faulty"`) || !strings.Contains(lines[1], "index out of range") {
		t.Errorf("the log does not say why:\n%s", text)
	}
}

func TestLogIsBounded(t *testing.T) {
	l, text := newLog()
	serve(l, func() { panic(strings.Repeat("€", maxStack)) })
	if n := text.Len(); n > 2*(maxValue+maxStack) {
		t.Errorf("one panic has %d bytes in the log", n)
	}
	for i := range 2 * maxPlaces {
		isNew, isLast := l.add(strings.Repeat("x", i))
		if wantNew := i < maxPlaces-1; isNew != wantNew || isLast != (i == maxPlaces-2) {
			t.Errorf("place %d: new %t, last %t", i, isNew, isLast)
		}
	}
}

// A panic of the end goes on: that of the daemon is better than a connection whose state is unknown.
func TestPanicOfTheEndGoesOn(t *testing.T) {
	l, _ := newLog()
	defer func() {
		if recover() == nil {
			t.Error("it was recovered")
		}
	}()
	defer l.Recover("a test", func() { panic("of the end") })
	panic("of the work")
}

func TestEveryStepIsTaken(t *testing.T) {
	l, _ := newLog()
	taken := 0
	step := func() { taken++ }
	l.Each("a test", step, faulty, step)
	if taken != 2 || l.Count() != 1 {
		t.Errorf("%d steps were taken, and %d panics counted, want 2 and 1", taken, l.Count())
	}
}
