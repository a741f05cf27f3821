// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"sync"
)

// maxWaiting is how many events wait at most. A runtime goes on with its next request half a second later at the latest, so they are those of two minutes.
const maxWaiting = 256

// event is a call of Pods that is due. done is closed when it has returned, or has been replaced.
type event struct {
	call func(Pods)
	done chan struct{}
}

// queue has events in the order in which the runtime has reported them. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	waiting []event
	// added has an element while there may be something to do.
	added chan struct{}
}

func newQueue() *queue { return &queue{added: make(chan struct{}, 1)} }

// add appends a call. false: the queue is full, and has not taken it.
func (q *queue) add(call func(Pods)) (done <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == maxWaiting {
		return nil, false
	}
	return q.addLocked(call), true
}

// replace appends a call that makes all those needless that wait.
func (q *queue) replace(call func(Pods)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.waiting {
		close(e.done)
	}
	q.waiting = nil
	q.addLocked(call)
}

func (q *queue) addLocked(call func(Pods)) (done <-chan struct{}) {
	e := event{call, make(chan struct{})}
	q.waiting = append(q.waiting, e)
	select {
	case q.added <- struct{}{}:
	default:
	}
	return e.done
}

// deliver makes the calls, one at a time, until ctx ends.
func (q *queue) deliver(ctx context.Context, to Pods) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.added:
		}
		for e, ok := q.next(); ok && ctx.Err() == nil; e, ok = q.next() {
			e.call(to)
			close(e.done)
		}
	}
}

func (q *queue) next() (e event, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return event{}, false
	}
	e = q.waiting[0]
	q.waiting = q.waiting[1:]
	return e, true
}
