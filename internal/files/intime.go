// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// patience bounds what a file system may take for one file. A disk that is busy answers in less; one that hangs, as of a server that has gone,
// never does.
const patience = 5 * time.Second

// maxHanging bounds the files for which something is under way that takes longer: each holds a thread, of which a Go program may have 10,000.
const maxHanging = 256

// errHangs is of what was given up.
var errHangs = errors.New("its file system hangs, or it waits for somebody to write")

// inTime has something done with a file, and returns an error where that takes longer than patience. What was opened is closed then, which ends a read
// that can be ended. A file for which something is still under way is not tried again: each try would leave another goroutine behind.
func inTime[T any](path string, do func(opened func(io.Closer)) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	if err := refuse(path); err != nil {
		return result{}.value, err
	}
	a := &attempt{path: path}
	done := make(chan result, 1)
	go func() {
		value, err := do(a.opened)
		if a.end() {
			done <- result{value, err}
		}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-timer.C:
			// One that has ended in the last moment has its result next.
			if a.giveUp() {
				return result{}.value, fmt.Errorf("%s: not read within %v; %w", path, patience, errHangs)
			}
		}
	}
}

// attempt is something that is done with a file.
type attempt struct {
	path string

	mu sync.Mutex
	// file is what was opened, or nil; ended and late say that the attempt has ended, and that it was given up before. Guarded by mu.
	file        io.Closer
	ended, late bool
}

// opened has the file closed when the attempt ends, or is given up.
func (a *attempt) opened(f io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file = f; a.late {
		f.Close()
	}
}

// end reports false for what was given up.
func (a *attempt) end() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.file != nil {
		a.file.Close()
	}
	if a.late {
		underWay.remove(a.path)
	}
	return !a.late
}

// giveUp reports false for what has ended.
func (a *attempt) giveUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.late = true
	underWay.add(a.path)
	if a.file != nil {
		a.file.Close()
	}
	return true
}

// refuse returns an error for a file that hangs already, and for any where too many do.
func refuse(path string) error {
	switch hangs, all := underWay.has(path); {
	case hangs:
		return fmt.Errorf("%s: not read within %v; %w", path, patience, errHangs)
	case all >= maxHanging:
		return fmt.Errorf("%s: not read, since %d others take longer than %v; %w", path, all, patience, errHangs)
	}
	return nil
}

// underWay are the paths that something has been waiting for longer than its patience. A path may be there several times.
var underWay = hanging{paths: map[string]int{}}

type hanging struct {
	mu    sync.Mutex
	paths map[string]int // guarded by mu
	all   int            // guarded by mu
}

func (h *hanging) add(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paths[path]++
	h.all++
}

func (h *hanging) remove(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	if h.paths[path]--; h.paths[path] == 0 {
		delete(h.paths, path)
	}
}

func (h *hanging) has(path string) (hangs bool, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paths[path] > 0, h.all
}
