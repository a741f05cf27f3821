// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"log/slog"
	"testing"
	"time"
)

func TestLinesOfADelegateAreBounded(t *testing.T) {
	o := newOutput(slog.New(slog.DiscardHandler))
	now := o.last
	logged := 0
	for range 10 * lineBurst {
		if o.allowed(now) {
			logged++
		}
	}
	if logged != lineBurst {
		t.Errorf("%d lines at once, wants %d", logged, lineBurst)
	}
	logged = 0
	for range 10 * lineBurst {
		if o.allowed(now.Add(2 * time.Second)) {
			logged++
		}
	}
	if logged != 2*lineRate {
		t.Errorf("%d lines after two seconds, wants %d", logged, 2*lineRate)
	}
}

func TestDroppedLinesAreCounted(t *testing.T) {
	m := newManager(t)
	m.applies(noisy)
	awaits(t, m, "dropped lines", func(s Status) bool { return s.State == Ready && s.Dropped >= lineBurst })
}

func TestLevelsOfLines(t *testing.T) {
	for _, row := range []struct{ line, level, text string }{
		{"[critical] error initializing", "critical", "error initializing"},
		{"[warning] [x] y", "warning", "[x] y"},
		{"[2026-12-01T00:00:00.000Z] \"GET / HTTP/1.1\"", "", "[2026-12-01T00:00:00.000Z] \"GET / HTTP/1.1\""},
		{"terminate called", "", "terminate called"},
		{"[", "", "["},
		{"", "", ""},
	} {
		level, text := parseLine([]byte(row.line))
		if level != row.level || string(text) != row.text {
			t.Errorf("%q: level %q, text %q", row.line, level, text)
		}
	}
}

func TestTheLastComplaintIsKept(t *testing.T) {
	w := newWords(newOutput(slog.New(slog.DiscardHandler)))
	for _, line := range []string{"[error] first", "[critical] second", "[info] third", "fourth"} {
		w.line([]byte(line))
	}
	if w.last() != "second" {
		t.Errorf("complaint %q", w.last())
	}
	w.line(append([]byte("[error] "), make([]byte, 2*mostWords)...))
	if n := len(w.last()); n != mostWords {
		t.Errorf("%d bytes are kept", n)
	}
}
