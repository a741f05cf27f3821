// SPDX-License-Identifier: Apache-2.0

// Package crash confines a panic to the connection, or the copy of a request, that the panicking goroutine serves.
//
// It is for goroutines that serve one client, and for nothing else: a panic in what serves all, such as the pollers, the pool, reconciliation and health
// checks, ends the process, since what it leaves behind is unknown. So does what the Go runtime calls a fatal error, which cannot be recovered.
// A lock that is held where such a goroutine may panic is released by defer.
package crash

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// Err is why a connection has ended that was served by code which has panicked.
var Err = errors.New("internal error; the log has its stack")

// Bounds of what is logged: places, bytes of a panic's value, and of a stack.
const (
	maxPlaces = 32
	maxValue  = 1 << 10
	maxStack  = 16 << 10
)

// Log counts panics, and logs the first one of each place. It is safe for concurrent use.
type Log struct {
	log   *slog.Logger
	count atomic.Uint64

	mu sync.Mutex
	// logged are lines of code of which a panic was logged; guarded by mu.
	logged map[string]bool
}

// New returns one that has counted nothing.
func New(log *slog.Logger) *Log { return &Log{log: log, logged: map[string]bool{}} }

// Count is how many panics were recovered.
func (l *Log) Count() uint64 { return l.count.Load() }

// Recover is to be deferred. It recovers a panic, and then has end end what the goroutine has served; without a panic it does nothing. A panic of end
// goes on. So does every panic without a Log.
func (l *Log) Recover(serving string, end func()) {
	if l == nil {
		return
	}
	value := recover()
	if value == nil {
		return
	}
	l.note(serving, value)
	end()
}

// Each calls all functions, whatever one of them panics at.
func (l *Log) Each(serving string, steps ...func()) {
	for _, step := range steps {
		l.one(serving, step)
	}
}

func (l *Log) one(serving string, step func()) {
	defer l.Recover(serving, func() {})
	step()
}

// note counts a panic, and logs it where its place is new. The stack is that of the panic: Recover runs on top of it.
func (l *Log) note(serving string, value any) {
	l.count.Add(1)
	place := placeOfPanic()
	isNew, isLast := l.add(place)
	if !isNew {
		return
	}
	l.log.Error("a panic has ended what was served, and nothing else; please report it", "serving", serving, "place", place,
		"panic", bounded(fmt.Sprint(value), maxValue), "stack", bounded(string(debug.Stack()), maxStack))
	if isLast {
		l.log.Error("panics of further places are counted, not logged", "metric", "xlb_request_panics_total")
	}
}

func (l *Log) add(place string) (isNew, isLast bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged[place] || len(l.logged) == maxPlaces {
		return false, false
	}
	l.logged[place] = true
	return true, len(l.logged) == maxPlaces
}

// placeOfPanic is the line that has panicked: the first one below the runtime's own.
func placeOfPanic() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicked := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case inRuntime:
			panicked = panicked || f.Function == "runtime.gopanic"
		case panicked:
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

func bounded(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}
