// SPDX-License-Identifier: Apache-2.0

// Package poller watches many idle sockets with one epoll descriptor and one goroutine, and calls what is to be done again and again. An
// idle socket costs an epoll entry and a small struct, no goroutine and no buffer. A wake-up of this process costs one run of one thread.
package poller

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handler is called on the poller's goroutine when its socket has something to say: it must not block. The watch
// is over then, until Rearm: a socket whose bytes, or connections, cannot be taken would have it called without end.
type Handler interface {
	Ready()
}

// Poller is an epoll instance. The zero value is not usable: see New.
type Poller struct {
	epfd int
	file *os.File

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

// New opens an epoll instance and starts its goroutine; Close ends it.
func New() (*Poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	// The runtime's own poller watches this one, so that no thread waits here: one that does, and wakes, wakes others with it.
	if err := unix.SetNonblock(epfd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("create epoll: %w", err), unix.Close(epfd))
	}
	p := &Poller{epfd: epfd, file: os.NewFile(uintptr(epfd), "epoll"), handlers: map[int32]entry{}, done: make(chan struct{})}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch epoll: %w", err), p.file.Close())
	}
	go p.run(raw)
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
	if err := control(p.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
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
	if err := control(p.epfd, unix.EPOLL_CTL_MOD, fd, &ev); err != nil {
		return fmt.Errorf("rearm socket: %w", err)
	}
	return nil
}

// Forget must be called before fd is closed. Closing takes the descriptor from epoll: it must be the socket's only one.
func (p *Poller) Forget(fd int) {
	p.forget(fd)
}

// Remove is Forget for a descriptor of a socket that other processes have descriptors of: their sockets would go on to wake this process.
func (p *Poller) Remove(fd int) {
	p.forget(fd)
	// It is not there if it was never watched.
	_ = control(p.epfd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (p *Poller) forget(fd int) {
	p.mu.Lock()
	delete(p.handlers, int32(fd))
	p.mu.Unlock()
}

// Close ends the goroutine and waits for it. Watched sockets stay open.
func (p *Poller) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	err := p.file.Close()
	<-p.done
	return err
}

func (p *Poller) run(raw syscall.RawConn) {
	defer close(p.done)
	events := make([]unix.EpollEvent, 256)
	for {
		n := 0
		look := func(epfd uintptr) bool {
			var err error
			n, err = WaitNow(int(epfd), events)
			return n > 0 || err != nil
		}
		if err := raw.Read(look); err != nil || n == 0 {
			return
		}
		for _, ev := range events[:n] {
			if !p.dispatch(ev) {
				return
			}
		}
	}
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
