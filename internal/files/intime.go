// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// patience bounds what a file system may take for one file. A disk that is busy answers in less; one that hangs, as of a server that has gone,
// never does.
const patience = 5 * time.Second

// underWay are the paths that something has been waiting for longer than its patience.
var underWay struct {
	sync.Mutex
	paths map[string]bool
}

// inTime has something done with a file, and returns an error where that takes longer than patience. What was opened is closed then, which ends a read
// that can be ended. A file for which something is still under way is not tried again: each try would leave another goroutine behind.
func inTime[T any](path string, do func(opened func(io.Closer)) (T, error)) (T, error) {
	var none T
	if isUnderWay(path) {
		return none, hangs(path)
	}
	type result struct {
		value T
		err   error
	}
	var mu sync.Mutex // guards what follows
	var file io.Closer
	var late bool
	opened := func(f io.Closer) {
		mu.Lock()
		defer mu.Unlock()
		if file = f; late {
			f.Close()
		}
	}
	done := make(chan result, 1)
	go func() {
		value, err := do(opened)
		mu.Lock()
		defer mu.Unlock()
		if file != nil {
			file.Close()
		}
		if late {
			setUnderWay(path, false)
		}
		done <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case r := <-done:
		return r.value, r.err
	default:
	}
	late = true
	setUnderWay(path, true)
	if file != nil {
		file.Close()
	}
	return none, hangs(path)
}

func hangs(path string) error {
	return fmt.Errorf("%s: not read within %v; its file system hangs, or it waits for somebody to write", path, patience)
}

func isUnderWay(path string) bool {
	underWay.Lock()
	defer underWay.Unlock()
	return underWay.paths[path]
}

func setUnderWay(path string, is bool) {
	underWay.Lock()
	defer underWay.Unlock()
	if underWay.paths == nil {
		underWay.paths = map[string]bool{}
	}
	if is {
		underWay.paths[path] = true
	} else {
		delete(underWay.paths, path)
	}
}
