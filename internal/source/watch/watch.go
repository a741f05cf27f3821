// SPDX-License-Identifier: Apache-2.0

// Package watch reads the files of resources that have changed, many at the same time: one that hangs delays no other. A file is read ahead, too, for a
// configuration that names it and is not in force yet.
package watch

import (
	"fmt"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// Content is what a file holds that has changed.
type Content struct {
	File      config.File
	Resources []Resource
	// Err is why nothing of it can be used, or nil.
	Err error
	// Needs are the files that its resources name.
	Needs []config.File
}

// Resource is a resource of a file.
type Resource struct {
	config.Named
	// Err is why it cannot be served, or nil.
	Err error
}

// Config is what Files work with.
type Config struct {
	// Parse returns what a file with that text holds. It is called for one file at a time.
	Parse func(f config.File, text []byte) *Content
	// Stopped is closed when no file is to be read any more.
	Stopped <-chan struct{}
}

// watchedFile is a file that is looked at. The goroutine that looks at it holds its lock.
type watchedFile struct {
	mu sync.Mutex
	files.Watch
	// ahead is when it began to be read for a configuration that is not in force yet; zero: it has been taken, or was not. Guarded by Files.mu.
	ahead time.Time
}

// spared is how long what was read ahead waits for the configuration that names it. One that is refused never comes.
const spared = 30 * time.Second

// Files are what is known of files of resources. They are safe for concurrent use.
type Files struct {
	cfg     Config
	mu      sync.Mutex
	watches map[config.File]*watchedFile // guarded by mu
	// arrived are files of which all were looked at, ahead those that were read for a configuration that names the file. Guarded by mu.
	arrived []*Content
	ahead   map[config.File]*Content
	// pending are batches that read ahead, and that AwaitAhead has yet to wait for. Guarded by mu.
	pending []*batch
	// parsing is held by one file at a time: a large one takes some times its size.
	parsing sync.Mutex
}

// New returns Files without any file that is looked at.
func New(cfg Config) *Files {
	return &Files{cfg: cfg, watches: map[config.File]*watchedFile{}, ahead: map[config.File]*Content{}}
}

// watch begins to watch a file, and reports whether that is new.
func (fs *Files) watch(f config.File) (w *watchedFile, first bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if w := fs.watches[f]; w != nil {
		return w, false
	}
	w = &watchedFile{}
	fs.watches[f] = w
	return w, true
}

// watchAhead is watch for a file that a configuration names which is not in force yet.
func (fs *Files) watchAhead(f config.File) (w *watchedFile, first bool) {
	w, first = fs.watch(f)
	if first {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		w.ahead = time.Now()
	}
	return w, first
}

// Keep forgets other files than those, and reports whether there were any.
func (fs *Files) Keep(named map[config.File]bool) (forgot bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f, w := range fs.watches {
		if !named[f] && time.Since(w.ahead) > spared {
			delete(fs.watches, f)
			delete(fs.ahead, f)
			forgot = true
		}
	}
	return forgot
}

// arrive takes what Look has read, unless the file has been forgotten meanwhile: another look may have read newer content.
func (fs *Files) arrive(w *watchedFile, one *Content) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.watches[one.File] == w {
		fs.arrived = append(fs.arrived, one)
	}
}

func (fs *Files) takeArrived() []*Content {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.arrived
	fs.arrived = nil
	return all
}

// putAhead takes what has been read ahead, likewise.
func (fs *Files) putAhead(w *watchedFile, one *Content) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.watches[one.File] == w {
		fs.ahead[one.File] = one
	}
}

// TakeAhead returns what has been read ahead; nil for a file that was not, or has been taken.
func (fs *Files) TakeAhead(f config.File) *Content {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	one := fs.ahead[f]
	delete(fs.ahead, f)
	if w := fs.watches[f]; w != nil {
		w.ahead = time.Time{}
	}
	return one
}

// parallel is how many files are looked at at the same time: one that hangs takes some seconds of one of them.
const parallel = 32

// Look returns what those files hold that have changed. It waits for new ones, which the configuration is not whole without, a moment for
// others, and ends with stop.
func (fs *Files) Look(list []config.File) []*Content {
	first, later := newBatch(), newBatch()
	for _, f := range list {
		w, isNew := fs.watch(f)
		if !w.mu.TryLock() {
			continue // the look before has not ended
		}
		if isNew {
			fs.begin(first, f, w, fs.arrive)
		} else {
			fs.begin(later, f, w, fs.arrive)
		}
	}
	files.Wait(&first.WaitGroup, 0, fs.cfg.Stopped)
	files.Wait(&later.WaitGroup, files.Glance, fs.cfg.Stopped)
	return fs.takeArrived()
}

// ReadAhead reads those files that were not looked at before, for the configuration that names them.
func (fs *Files) ReadAhead(list []config.File) {
	files.Wait(&fs.beginAhead(newBatch(), list).WaitGroup, 0, fs.cfg.Stopped)
}

func (fs *Files) beginAhead(all *batch, list []config.File) *batch {
	for _, f := range list {
		if w, isNew := fs.watchAhead(f); isNew {
			w.mu.Lock()
			fs.begin(all, f, w, fs.putAhead)
		}
	}
	return all
}

// StartAhead is ReadAhead for a caller that must not wait. All that is read for a configuration counts as one batch.
func (fs *Files) StartAhead(list []config.File) {
	if len(list) == 0 {
		return
	}
	fs.mu.Lock()
	one := newBatch()
	if n := len(fs.pending); n > 0 {
		one.gate = fs.pending[n-1].gate
	}
	fs.pending = append(fs.pending, one)
	// AwaitAhead waits for all of it.
	one.Add(1)
	fs.mu.Unlock()
	defer one.Done()
	fs.beginAhead(one, list)
}

// AwaitAhead waits for what StartAhead has begun: some seconds where a file hangs, however many do.
func (fs *Files) AwaitAhead() {
	fs.mu.Lock()
	pending := fs.pending
	fs.pending = nil
	fs.mu.Unlock()
	for _, one := range pending {
		files.Wait(&one.WaitGroup, 0, fs.cfg.Stopped)
	}
}

// batch is of files that are looked at at the same time.
type batch struct {
	sync.WaitGroup
	gate chan struct{}
}

func newBatch() *batch { return &batch{gate: make(chan struct{}, parallel)} }

// begin looks at a file that is locked, and gives what it holds if that has changed.
func (fs *Files) begin(r *batch, f config.File, w *watchedFile, give func(*watchedFile, *Content)) {
	r.Go(func() {
		defer w.mu.Unlock()
		r.gate <- struct{}{}
		defer func() { <-r.gate }()
		if one := fs.lookAt(f, &w.Watch); one != nil {
			give(w, one)
		}
	})
}

// lookAt returns what a file holds that has changed, and is whole; nil: it is not. One that has changed while it was read is read again later.
func (fs *Files) lookAt(f config.File, w *files.Watch) *Content {
	now := time.Now()
	stamp, due := w.Due(f.Path, now)
	if !due {
		return nil
	}
	text, err := config.ReadText(f.Path)
	if shutdown.HasStarted(fs.cfg.Stopped) || !w.Take(f.Path, stamp, err) {
		return nil
	}
	w.Again(err, now)
	if err != nil {
		return &Content{File: f, Err: &config.UnreadableError{Err: fmt.Errorf("read resources: %w", err)}}
	}
	fs.parsing.Lock()
	defer fs.parsing.Unlock()
	return fs.cfg.Parse(f, text)
}
