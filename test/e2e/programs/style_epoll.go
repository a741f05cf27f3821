// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// epollPump makes calls only after an edge promised that they will succeed. A
// data path that fills a socket without an edge hangs it.
type epollPump struct {
	blockingPump
	epoll int
	// shortEnds takes a short read or write for the last one until an edge.
	shortEnds          bool
	readable, writable bool
}

func newEpollPump(fd int, shortEnds bool) (pump, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return nil, errors.Join(os.NewSyscallError("epoll_ctl", err), unix.Close(epoll))
	}
	return &epollPump{blockingPump: blockingPump{fd}, epoll: epoll, shortEnds: shortEnds}, nil
}

func (e *epollPump) read(p []byte) (int, error) {
	return e.when(&e.readable, e.blockingPump.read, p)
}

func (e *epollPump) write(p []byte) (int, error) {
	return e.when(&e.writable, e.blockingPump.write, p)
}

func (e *epollPump) when(ready *bool, call func([]byte) (int, error), p []byte) (int, error) {
	for {
		for !*ready {
			if err := e.await(); err != nil {
				return 0, err
			}
		}
		n, err := call(p)
		if err == unix.EAGAIN {
			*ready = false
			continue
		}
		if e.shortEnds && n > 0 && n < len(p) {
			*ready = false
		}
		return n, err
	}
}

// await takes the next edge and notes what it promises.
func (e *epollPump) await() error {
	events := make([]unix.EpollEvent, 1)
	if _, err := retryN(func() (int, error) { return unix.EpollWait(e.epoll, events, -1) }); err != nil {
		return os.NewSyscallError("epoll_wait", err)
	}
	const ends = unix.EPOLLERR | unix.EPOLLHUP | unix.EPOLLRDHUP
	if events[0].Events&(unix.EPOLLIN|ends) != 0 {
		e.readable = true
	}
	if events[0].Events&(unix.EPOLLOUT|ends) != 0 {
		e.writable = true
	}
	return nil
}

func (e *epollPump) close() error {
	return os.NewSyscallError("close", unix.Close(e.epoll))
}
