// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/files"
)

// found is what a file holds that has changed.
type found struct {
	file config.File
	list []candidate
	// err is why nothing of it can be used, or nil.
	err error
	// needs are the files that its resources name.
	needs []config.File
}

// candidate is a resource of a file. Err is why it cannot be served, or nil.
type candidate struct {
	config.Named
	err error
}

// watchedFile is a file that is looked at. Its lock is held by who looks.
type watchedFile struct {
	mu sync.Mutex
	files.Watch
	// ahead is when it began to be read for a configuration that is not in force yet; zero: it has been taken, or was not. Guarded by looks.mu.
	ahead time.Time
}

// spared is how long what was read ahead waits for the configuration that names it. One that is refused never comes.
const spared = 30 * time.Second

// looks are what is known of files of resources. They are safe for concurrent use.
type looks struct {
	mu      sync.Mutex
	watches map[config.File]*watchedFile // guarded by mu
	// arrived has been read by those who look at all files, ahead by others, for a configuration that names the file. Guarded by mu.
	arrived []*found
	ahead   map[config.File]*found
	// begun are rounds that read ahead, and that nobody has waited for. Guarded by mu.
	begun []*round
	// parsing is held by one file at a time: a large one takes some times its size.
	parsing sync.Mutex
}

// watch begins to watch a file, and reports whether nobody did before.
func (l *looks) watch(f config.File) (w *watchedFile, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watches[f]; w != nil {
		return w, false
	}
	w = &watchedFile{}
	l.watches[f] = w
	return w, true
}

// watchAhead is watch for a file that a configuration names which is not in force yet.
func (l *looks) watchAhead(f config.File) (w *watchedFile, first bool) {
	w, first = l.watch(f)
	if first {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.ahead = time.Now()
	}
	return w, first
}

// keep forgets other files, and reports whether there were any.
func (l *looks) keep(named map[config.File]bool) (forgot bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, w := range l.watches {
		if !named[f] && time.Since(w.ahead) > spared {
			delete(l.watches, f)
			delete(l.ahead, f)
			forgot = true
		}
	}
	return forgot
}

// arrive takes what those have read who look at all files, unless the file has been forgotten meanwhile: another may have read newer content.
func (l *looks) arrive(w *watchedFile, one *found) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches[one.file] == w {
		l.arrived = append(l.arrived, one)
	}
}

func (l *looks) takeArrived() []*found {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.arrived
	l.arrived = nil
	return all
}

// putAhead takes what has been read ahead, likewise.
func (l *looks) putAhead(w *watchedFile, one *found) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches[one.file] == w {
		l.ahead[one.file] = one
	}
}

// takeAhead is nil for a file that was not read ahead, or has been taken.
func (l *looks) takeAhead(f config.File) *found {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.ahead[f]
	delete(l.ahead, f)
	if w := l.watches[f]; w != nil {
		w.ahead = time.Time{}
	}
	return one
}

// lookers is how many files are looked at at the same time: one that hangs takes some seconds of one looker.
const lookers = 32

// look returns what those files hold that have changed. It waits for new ones, which the configuration is not whole without, a moment for
// others, and ends with stop.
func (d *dynamic) look(list []config.File) []*found {
	first, later := newRound(), newRound()
	for _, f := range list {
		w, isNew := d.looks.watch(f)
		if !w.mu.TryLock() {
			continue // the look before has not ended
		}
		if isNew {
			d.begin(first, f, w, d.looks.arrive)
		} else {
			d.begin(later, f, w, d.looks.arrive)
		}
	}
	files.Wait(&first.WaitGroup, 0, d.stopped)
	files.Wait(&later.WaitGroup, files.Glance, d.stopped)
	return d.looks.takeArrived()
}

// readAhead reads those files that nobody has looked at before, for whoever puts in force what names them.
func (d *dynamic) readAhead(list []config.File) {
	files.Wait(&d.beginAhead(newRound(), list).WaitGroup, 0, d.stopped)
}

func (d *dynamic) beginAhead(all *round, list []config.File) *round {
	for _, f := range list {
		if w, isNew := d.looks.watchAhead(f); isNew {
			w.mu.Lock()
			d.begin(all, f, w, d.looks.putAhead)
		}
	}
	return all
}

// readAheadOf is readAhead for who must not wait. All that is read for a configuration counts as one round.
func (d *dynamic) readAheadOf(list []config.File) {
	if len(list) == 0 {
		return
	}
	d.looks.mu.Lock()
	one := newRound()
	if n := len(d.looks.begun); n > 0 {
		one.gate = d.looks.begun[n-1].gate
	}
	d.looks.begun = append(d.looks.begun, one)
	// Who waits finds all of it.
	one.Add(1)
	d.looks.mu.Unlock()
	defer one.Done()
	d.beginAhead(one, list)
}

// awaitAhead waits for what readAheadOf has begun: some seconds where a file hangs, however many do.
func (d *dynamic) awaitAhead() {
	d.looks.mu.Lock()
	begun := d.looks.begun
	d.looks.begun = nil
	d.looks.mu.Unlock()
	for _, one := range begun {
		files.Wait(&one.WaitGroup, 0, d.stopped)
	}
}

// round is of files that are looked at at the same time.
type round struct {
	sync.WaitGroup
	gate chan struct{}
}

func newRound() *round { return &round{gate: make(chan struct{}, lookers)} }

// begin looks at a file that is locked, and gives what it holds if that has changed.
func (d *dynamic) begin(r *round, f config.File, w *watchedFile, give func(*watchedFile, *found)) {
	r.Go(func() {
		defer w.mu.Unlock()
		r.gate <- struct{}{}
		defer func() { <-r.gate }()
		if one := d.lookAt(f, &w.Watch); one != nil {
			give(w, one)
		}
	})
}

// lookAt returns what a file holds that has changed, and is whole; nil: it is not. One that has changed while it was read is read again later.
func (d *dynamic) lookAt(f config.File, w *files.Watch) *found {
	now := time.Now()
	stamp, due := w.Due(f.Path, now)
	if !due {
		return nil
	}
	text, err := config.ReadText(f.Path)
	if isClosed(d.stopped) || !w.Take(f.Path, stamp, err) {
		return nil
	}
	w.Again(err, now)
	if err != nil {
		return &found{file: f, err: &config.UnreadableError{Err: fmt.Errorf("read resources: %w", err)}}
	}
	d.looks.parsing.Lock()
	defer d.looks.parsing.Unlock()
	return d.parse(f, text)
}

// parse checks what a file holds.
func (d *dynamic) parse(f config.File, text []byte) *found {
	list, err := config.ParseFile(f, text)
	out := &found{file: f, err: err}
	for _, one := range list {
		needs, err := d.check(f.Kind, one.Name, one.Body)
		if err == nil && len(needs.References) > 0 {
			err = config.ErrFromFile
		}
		if err == nil {
			out.needs = append(out.needs, needs.Files...)
		}
		out.list = append(out.list, candidate{one, err})
	}
	return out
}
