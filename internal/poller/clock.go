// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Beat is a function that is called again and again.
type Beat struct {
	f func(now time.Time) time.Duration
	// due is when it is called next, since the clock's zero. Guarded by clock.mu.
	due time.Duration
	// calling is held during a call.
	calling sync.Mutex
	stopped bool // guarded by calling
}

// Every calls f again and again, all such functions on one goroutine: they must not wait for anything. Each call returns how long it is
// until the next one, which must be more than 0: calls are made at multiples of that time, so that those of many functions come with one
// wake-up of the process. Their timer is not one of the Go runtime's, of which each wakes several threads.
func Every(f func(now time.Time) time.Duration) (*Beat, error) {
	b := &Beat{f: f}
	return b, beats.add(b)
}

// Soon makes the next call come within d, if it is to come later.
func (b *Beat) Soon(d time.Duration) { beats.hasten(b, d) }

// Stop returns when f is not running, and will not be called again. It must not be called by f.
func (b *Beat) Stop() {
	b.calling.Lock()
	b.stopped = true
	b.calling.Unlock()
	beats.remove(b)
}

// call returns how long it is until the next call, 0 for none.
func (b *Beat) call(now time.Time) time.Duration {
	b.calling.Lock()
	defer b.calling.Unlock()
	if b.stopped {
		return 0
	}
	return b.f(now)
}

// clock calls beats. It has a timer and a goroutine while there are any.
type clock struct {
	mu    sync.Mutex
	beats map[*Beat]struct{}
	timer *os.File
	raw   syscall.RawConn
	fd    int
	// at is when the timer is due, since zero.
	at   time.Duration
	done chan struct{}
}

var (
	beats = clock{beats: map[*Beat]struct{}{}}
	zero  = time.Now()
)

func (c *clock) add(b *Beat) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.beats) == 0 {
		if err := c.start(); err != nil {
			return err
		}
	}
	c.beats[b] = struct{}{}
	b.due = time.Since(zero)
	c.setLocked(b.due)
	return nil
}

func (c *clock) start() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("create timer: %w", err)
	}
	c.timer, c.fd, c.at, c.done = os.NewFile(uintptr(fd), "timer"), fd, never, make(chan struct{})
	// Only a nil file has none.
	c.raw, _ = c.timer.SyscallConn()
	go c.run(c.raw, c.done)
	return nil
}

func (c *clock) remove(b *Beat) {
	c.mu.Lock()
	if _, ok := c.beats[b]; !ok {
		c.mu.Unlock()
		return
	}
	delete(c.beats, b)
	if len(c.beats) > 0 {
		c.mu.Unlock()
		return
	}
	timer, done := c.timer, c.done
	c.mu.Unlock()
	// What is wrong with a timer was found when it was made.
	_ = timer.Close()
	<-done
}

func (c *clock) hasten(b *Beat, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := time.Since(zero) + d
	if _, ok := c.beats[b]; ok && due < b.due {
		b.due = due
		c.setLocked(due)
	}
}

// never is later than any beat.
const never = time.Duration(1<<63 - 1)

// setLocked makes the timer due then, unless it is due before.
func (c *clock) setLocked(due time.Duration) {
	if due < c.at {
		c.at = due
		setTimer(c.fd, max(int64(due-time.Since(zero)), 1))
	}
}

func (c *clock) run(raw syscall.RawConn, done chan struct{}) {
	defer close(done)
	for raw.Read(func(fd uintptr) bool { return readTimer(int(fd)) }) == nil {
		c.tick()
	}
}

// tick calls what is due.
func (c *clock) tick() {
	now := time.Now()
	since := now.Sub(zero)
	c.mu.Lock()
	c.at = never
	var due []*Beat
	for b := range c.beats {
		if b.due <= since {
			due = append(due, b)
			b.due = never
		}
	}
	c.mu.Unlock()
	for _, b := range due {
		c.again(b, b.call(now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.beats {
		c.setLocked(b.due)
	}
}

// again notes when a beat is called next. Somebody may have made it sooner during the call.
func (c *clock) again(b *Beat, pace time.Duration) {
	if pace <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	due := (time.Since(zero)/pace + 1) * pace
	b.due = min(b.due, due)
}
