// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// viewPatience is how long the start waits for another view than the shared one, whatever its bootstrap says: as long as initial_fetch_timeout is where it is
// not set. All views begin to be served at once, and one whose servers are silent keeps the others waiting.
const viewPatience = 15 * time.Second

// Await returns when all views have what Source.Await waits for, or are late. All wait at once. It reports what they wait for, a line for each view.
func (s *Sources) Await(ctx context.Context, report func(error)) {
	list := s.list()
	w := waits{report: report, of: make([]error, len(list))}
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() {
			one.awaitAmong(ctx, func(err error) { w.set(i, err) })
			w.set(i, nil)
		})
	}
	all.Wait()
}

// awaitAmong is Await of one view among others: for viewPatience at most, unless it is the shared one.
func (s *Source) awaitAmong(ctx context.Context, report func(error)) {
	view := s.cfg.File.View.Name
	if view == "" {
		s.Await(ctx, report)
		return
	}
	soon, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	var last error
	s.Await(soon, func(err error) {
		last = fmt.Errorf("view %s: %w", view, err)
		report(last)
	})
	if soon.Err() != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("going on without a part of the configuration", "err", last)
	}
}

// waits are what views wait for. It is safe for concurrent use.
type waits struct {
	mu sync.Mutex
	// of are in the order of views; nil: the view waits for nothing. Guarded by mu.
	of     []error
	report func(error)
}

// set notes what one view waits for. Once no view waits for anything, the last report stays.
func (w *waits) set(view int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[view] = err
	if all := errors.Join(w.of...); all != nil {
		w.report(all)
	}
}
