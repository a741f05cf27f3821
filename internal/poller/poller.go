// SPDX-License-Identifier: Apache-2.0

// Package poller watches many idle sockets with one epoll descriptor and one thread. An idle socket costs an epoll
// entry and a small struct, no goroutine and no buffer.
package poller

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Handler is called on the poller's thread when its socket has something to say: it must not block. A
// one-shot watch is over then, until Rearm.
type Handler interface {
	Ready()
}

// Poller is an epoll instance. The zero value is not usable: see New.
type Poller struct {
	epfd   int
	wakefd int
	delay  time.Duration

	mu       sync.Mutex
	handlers map[int32]entry
	next     int32
	closed   bool
	done     chan struct{}
}

type entry struct {
	h Handler
	// generation tells events of an earlier socket with the same descriptor from those of this one.
	generation int32
	events     uint32
}

// New opens an epoll instance and starts its thread; Close ends it.
func New() (*Poller, error) { return NewLazy(0) }

// NewLazy is New for sockets that need no answer before the delay has passed: what becomes ready in that time is handled together,
// with one wake-up.
func NewLazy(delay time.Duration) (*Poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create eventfd: %w", err), unix.Close(epfd))
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wakefd)}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wakefd, &ev); err != nil {
		return nil, errors.Join(fmt.Errorf("watch eventfd: %w", err), unix.Close(wakefd), unix.Close(epfd))
	}
	p := &Poller{epfd: epfd, wakefd: wakefd, delay: delay, handlers: map[int32]entry{}, done: make(chan struct{})}
	go p.run()
	return p, nil
}

// Errors and resets wake every watch.
const (
	closes   = unix.EPOLLRDHUP | unix.EPOLLONESHOT
	readable = closes | unix.EPOLLIN
)

// Watch calls h.Ready once when fd becomes readable, or its peer closes.
func (p *Poller) Watch(fd int, h Handler) error {
	return p.add(fd, h, readable)
}

// WatchAlways calls h.Ready whenever fd is readable.
func (p *Poller) WatchAlways(fd int, h Handler) error {
	return p.add(fd, h, unix.EPOLLIN)
}

// WatchClose calls h.Ready once when fd's peer closes. Bytes alone wake nobody.
func (p *Poller) WatchClose(fd int, h Handler) error {
	return p.add(fd, h, closes)
}

func (p *Poller) add(fd int, h Handler, events uint32) error {
	p.mu.Lock()
	p.next++
	generation := p.next
	p.handlers[int32(fd)] = entry{h, generation, events}
	p.mu.Unlock()
	ev := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: generation}
	if err := unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		p.forget(fd)
		return fmt.Errorf("watch socket: %w", err)
	}
	return nil
}

// Rearm makes Ready be called once more, for what it was watched for. It is called at once when that is so already.
func (p *Poller) Rearm(fd int) error {
	p.mu.Lock()
	e, ok := p.handlers[int32(fd)]
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("rearm socket: %w", unix.ENOENT)
	}
	ev := unix.EpollEvent{Events: e.events, Fd: int32(fd), Pad: e.generation}
	if err := unix.EpollCtl(p.epfd, unix.EPOLL_CTL_MOD, fd, &ev); err != nil {
		return fmt.Errorf("rearm socket: %w", err)
	}
	return nil
}

// Forget must be called before fd is closed. Closing takes the descriptor from epoll: it must be the socket's only one.
func (p *Poller) Forget(fd int) {
	p.forget(fd)
}

func (p *Poller) forget(fd int) {
	p.mu.Lock()
	delete(p.handlers, int32(fd))
	p.mu.Unlock()
}

// Close ends the thread and waits for it. Watched sockets stay open.
func (p *Poller) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	if _, err := unix.Write(p.wakefd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("wake poller: %w", err)
	}
	<-p.done
	return errors.Join(unix.Close(p.wakefd), unix.Close(p.epfd))
}

// niceness of urgent threads.
const niceness = -10

// urgent locks the goroutine to its thread and raises the thread's priority. What runs on it does little, but whole
// machines of clients wait for it: an accept queue that overflows costs a connection a second. Without CAP_SYS_NICE the priority
// stays as it is.
func urgent() {
	runtime.LockOSThread()
	// Best effort: see above.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
}

func (p *Poller) run() {
	defer close(p.done)
	urgent()
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := p.wait(events)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if !p.dispatch(ev) {
				return
			}
		}
	}
}

func (p *Poller) wait(events []unix.EpollEvent) (int, error) {
	n, err := unix.EpollWait(p.epfd, events, -1)
	if n <= 0 || p.delay == 0 {
		return n, err
	}
	// Not time.Sleep: to park and to wake a goroutine that is locked to its thread takes several switches between threads.
	pause := unix.NsecToTimespec(int64(p.delay))
	// A signal makes the batch smaller.
	_ = unix.Nanosleep(&pause, nil)
	if n == len(events) {
		return n, nil
	}
	// What was found first is kept: a one-shot watch does not tell twice.
	more, _ := unix.EpollWait(p.epfd, events[n:], 0)
	return n + max(more, 0), nil
}

func (p *Poller) dispatch(ev unix.EpollEvent) bool {
	p.mu.Lock()
	e, ok := p.handlers[ev.Fd]
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return false
	}
	if ok && e.generation == ev.Pad {
		e.h.Ready()
	}
	return true
}
