// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// logFormat of Envoy begins each line with its level.
	logFormat = "[%l] %v"
	// lineBurst lines of a delegate are logged at once, and lineRate in a second after that. The rest is counted.
	lineBurst, lineRate = 100, 10
	// mostWords bounds what is kept of a line for why a process has ended, in bytes.
	mostWords = 1024
)

// output logs what the delegate's processes write.
type output struct {
	log     *slog.Logger
	dropped atomic.Uint64

	mu   sync.Mutex
	left float64
	last time.Time
}

func newOutput(log *slog.Logger) *output { return &output{log: log, left: lineBurst, last: time.Now()} }

// allowed reports whether one more line is logged.
func (o *output) allowed(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = min(lineBurst, o.left+now.Sub(o.last).Seconds()*lineRate)
	o.last = now
	if o.left < 1 {
		return false
	}
	o.left--
	return true
}

func (o *output) write(level slog.Level, text []byte) {
	if !o.allowed(time.Now()) {
		o.dropped.Add(1)
		return
	}
	o.log.Log(context.Background(), level, "the delegate writes", "line", string(text))
}

// words are the output of one process, of which the last complaint is kept.
type words struct {
	to *output

	mu sync.Mutex
	// complaint is the last line with the level error or critical.
	complaint []byte
}

func newWords(to *output) *words { return &words{to: to} }

// levels of Envoy's lines, and what they are to the daemon's log: the daemon goes on after an error of the delegate.
var levels = map[string]slog.Level{
	"critical": slog.LevelWarn, "error": slog.LevelWarn, "warning": slog.LevelInfo, "info": slog.LevelDebug, "debug": slog.LevelDebug, "trace": slog.LevelDebug,
}

// line takes a line of output.
func (w *words) line(line []byte) {
	level, text := parseLine(line)
	if level == "critical" || level == "error" {
		w.complain(text)
	}
	of, known := levels[level]
	if !known {
		of = slog.LevelInfo // of an access log, or of a library
	}
	w.to.write(of, text)
}

// parseLine divides a line of logFormat. level is empty where it is not of that format.
func parseLine(line []byte) (level string, text []byte) {
	rest, marked := bytes.CutPrefix(line, []byte("["))
	name, text, divided := bytes.Cut(rest, []byte("] "))
	if !marked || !divided {
		return "", line
	}
	if _, known := levels[string(name)]; !known {
		return "", line
	}
	return string(name), text
}

func (w *words) complain(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaint = append(w.complaint[:0], text[:min(len(text), mostWords)]...)
}

// last is the last complaint; empty: there was no complaint.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.complaint)
}
