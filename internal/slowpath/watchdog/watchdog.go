// SPDX-License-Identifier: Apache-2.0

// Package watchdog interrupts requests of package slowpath that take too long, or whose clients have gone.
package watchdog

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
)

// Causes for which a request is interrupted. The connection to the endpoint is not at fault.
var (
	ErrRouteTimeout = errors.New("route timeout expired")
	ErrStreamIdle   = errors.New("no progress within the stream idle timeout")
	ErrClientGone   = errors.New("client closed the connection")
	// ErrRequestTimeout is about the request alone, ErrMaxDuration about request and response, ErrMaxAttempt about one attempt.
	ErrRequestTimeout = errors.New("request did not arrive in time")
	ErrMaxDuration    = errors.New("time for request and response expired")
	ErrMaxAttempt     = errors.New("time of the cluster for one attempt expired")
)

// FirstLook is how long a request waits before the client is watched. Most
// are answered sooner and pay for no watching.
const FirstLook = 20 * time.Millisecond

// LookEvery is how often the watchdog asks, after the first looks, for a client of which a read would not tell that it has gone. It asks for one whose
// request is still to be read when nothing has moved for that long.
const LookEvery = time.Second

// Watchdog interrupts one request: when one of its times is over, when
// nothing moves, or when the client goes away. One timer serves all.
type Watchdog struct {
	conn   net.Conn
	reader *bufio.Reader
	cancel context.CancelCauseFunc
	idle   time.Duration
	// crashes are those of check.
	crashes *crash.Log
	// stays is Start's.
	stays func() bool

	last atomic.Int64 // Unix time of the last progress, ns

	mu       sync.Mutex
	timer    *time.Timer   // guarded by mu
	deadline time.Time     // guarded by mu; the route's timeout; zero: none
	readBy   time.Time     // guarded by mu; until when the request has to be read; zero: none, or it is read
	endBy    time.Time     // guarded by mu; until when all has to be over; zero: none
	unread   bool          // guarded by mu; the request is being read, and its client watched
	readable bool          // guarded by mu; the request is read and the reader is free
	watching chan struct{} // guarded by mu; closed when the watching has ended
	fired    bool          // guarded by mu
	over     bool          // guarded by mu
	look     time.Duration // guarded by mu; see nextLook
}

// Start begins to watch the request that is read from conn by r, and to call cancel with a cause. idle is the longest time without progress. stays tells
// whether the client is there still, as Session.Stays of package slowpath does; it may be nil. crashes are the panics of the watching itself.
func Start(
	conn net.Conn, r *bufio.Reader, idle time.Duration, stays func() bool, cancel context.CancelCauseFunc, crashes *crash.Log,
) *Watchdog {
	w := &Watchdog{conn: conn, reader: r, cancel: cancel, idle: idle, stays: stays, crashes: crashes}
	w.Progress()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(idle, w.check)
	return w
}

// Limit sets until when the request has to be read, and until when its response has to be written; zero times set nothing.
func (w *Watchdog) Limit(readBy, endBy time.Time) {
	if readBy.IsZero() && endBy.IsZero() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy, w.endBy = readBy, endBy
	left, _ := w.left(time.Now())
	w.timer.Reset(max(left, 0))
}

// left is the time to the next end, and why that is one. It needs mu.
func (w *Watchdog) left(now time.Time) (time.Duration, error) {
	left, why := w.idle-now.Sub(time.Unix(0, w.last.Load())), ErrStreamIdle
	for _, end := range []struct {
		at  time.Time
		why error
	}{{w.deadline, ErrRouteTimeout}, {w.readBy, ErrRequestTimeout}, {w.endBy, ErrMaxDuration}} {
		if d := end.at.Sub(now); !end.at.IsZero() && d < left {
			left, why = d, end.why
		}
	}
	return left, why
}

// Progress postpones the idle timeout.
func (w *Watchdog) Progress() { w.last.Store(time.Now().UnixNano()) }

func (w *Watchdog) lastProgress() time.Time { return time.Unix(0, w.last.Load()) }

// RequestUnread begins the watching of a client of which more of the request is to come. While nobody takes that, no read would tell that the
// client has gone, and its end waits behind what it has sent.
func (w *Watchdog) RequestUnread() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = w.stays != nil && !w.readable
	left, _ := w.left(time.Now())
	w.timer.Reset(max(min(LookEvery, left), 0))
}

// RequestRead starts the route's timeout (Envoy counts from the end of the
// request) and the watching of the client. Zero disables the timeout.
func (w *Watchdog) RequestRead(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.unread, w.readable, w.readBy = false, true, time.Time{}
	now := time.Now()
	if timeout > 0 {
		w.deadline = now.Add(timeout)
	}
	left, _ := w.left(now)
	w.timer.Reset(max(min(FirstLook, w.idle, left), 0))
}

// check runs when the timer fires.
func (w *Watchdog) check() {
	defer w.crashes.Recover("the watch over a request", w.Crashed)
	if w.mustWatch() {
		w.watch()
	}
}

// Crashed interrupts the request because code that works for it has panicked.
func (w *Watchdog) Crashed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.interrupt(crash.Err)
	}
}

// mustWatch interrupts the request if it is time, or says when to look again. It reports whether the client is to be watched from now on.
func (w *Watchdog) mustWatch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.fired {
		return false
	}
	now := time.Now()
	left, why := w.left(now)
	blind := w.blind()
	pause := LookEvery - now.Sub(w.lastProgress())
	switch {
	case left <= 0:
		w.interrupt(why)
	case (blind || w.unread && pause <= 0) && !w.stays():
		w.interrupt(ErrClientGone)
	case blind:
		w.timer.Reset(min(left, w.nextLook()))
	case w.unread && pause > 0:
		w.timer.Reset(min(left, pause))
	case w.unread:
		w.timer.Reset(min(left, LookEvery))
	default:
		w.timer.Reset(left)
	}
	watch := !w.fired && w.readable && w.watching == nil && w.reader.Buffered() == 0
	if watch {
		w.watching = make(chan struct{})
	}
	return watch
}

// interrupt needs mu. The deadline frees reads and writes that are blocked.
func (w *Watchdog) interrupt(cause error) {
	w.fired = true
	w.cancel(cause)
	// Fails only on a closed connection, where nothing is blocked.
	_ = w.conn.SetDeadline(time.Unix(1, 0))
}

// watch waits for the client to send something or to go away. What it sends
// stays in the reader: the next request, pipelined.
func (w *Watchdog) watch() {
	defer close(w.watching)
	_, err := w.reader.Peek(1)
	stays := err == nil || errors.Is(err, io.EOF) && w.stays != nil && w.stays()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.readable || w.over || w.fired {
		return
	}
	if !stays {
		w.interrupt(ErrClientGone)
		return
	}
	left, _ := w.left(time.Now())
	w.timer.Reset(max(min(left, w.nextLook()), 0))
}

// nextLook is how long it is until the client is looked for again: not long at first, as one that is about to go sends its end before it has gone. It needs mu.
func (w *Watchdog) nextLook() time.Duration {
	w.look = min(max(2*w.look, FirstLook), LookEvery)
	return w.look
}

// blind tells that no read waits for the client's end: it has sent more, or has closed its sending side already. It needs mu.
func (w *Watchdog) blind() bool {
	if !w.readable || w.stays == nil {
		return false
	}
	if w.watching == nil {
		return w.reader.Buffered() > 0
	}
	select {
	case <-w.watching:
		return true
	default:
		return false
	}
}

// Tunnel leaves the idle timeout and the time for all, and the reader to the caller.
func (w *Watchdog) Tunnel() {
	if watching := w.leaveTimes(); watching != nil {
		_ = w.conn.SetReadDeadline(time.Unix(1, 0))
		<-watching
		_ = w.conn.SetReadDeadline(time.Time{})
	}
}

func (w *Watchdog) leaveTimes() (watching <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline, w.readBy, w.unread, w.readable = time.Time{}, time.Time{}, false, false
	left, _ := w.left(time.Now())
	w.timer.Reset(max(left, 0))
	return w.watching
}

// Stop ends the watchdog and waits until it no longer uses the connection,
// whose deadlines are then as they were: none.
func (w *Watchdog) Stop() {
	watching, fired := w.endTimes()
	if watching != nil {
		_ = w.conn.SetReadDeadline(time.Unix(1, 0))
		<-watching
	}
	if watching != nil || fired {
		_ = w.conn.SetDeadline(time.Time{})
	}
}

func (w *Watchdog) endTimes() (watching <-chan struct{}, fired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	return w.watching, w.fired
}
