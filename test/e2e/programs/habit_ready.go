// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readyHabits are ways to learn that a socket can be used.
var readyHabits = habitKind{
	"poll":                  readyPoll,
	"select":                readySelect,
	"epoll, by level":       readyLevel,
	"epoll, by edge":        readyEdge,
	"epoll, one shot":       readyOneShot,
	"SIGIO":                 readySignal,
	"poll after the answer": readyHangup,
}

// eventNames in a fixed order; writability is left out, because nothing promises when it comes as an edge.
func eventNames(events uint32) string {
	var names []string
	for _, e := range []struct {
		bit  uint32
		name string
	}{{unix.EPOLLIN, "IN"}, {unix.EPOLLRDHUP, "RDHUP"}, {unix.EPOLLHUP, "HUP"}, {unix.EPOLLERR, "ERR"}, {unix.EPOLLPRI, "PRI"}} {
		if events&e.bit != 0 {
			names = append(names, e.name)
		}
	}
	return strings.Join(names, "|")
}

func readyPoll(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	look := func(when string, patience int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP | unix.POLLPRI}}
		n, err := retryN(func() (int, error) { return unix.Poll(fds, patience) })
		h.note("%s: %d, %s", when, n, eventNames(uint32(fds[0].Revents)))
		return os.NewSyscallError("poll", err)
	}
	return h.readyAround(fd, look)
}

func readySelect(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	look := func(when string, patience int) error {
		var r, e unix.FdSet
		r.Set(fd)
		e.Set(fd)
		timeout := &unix.Timeval{}
		if patience < 0 {
			timeout = nil
		}
		n, err := retryN(func() (int, error) { return unix.Select(fd+1, &r, nil, &e, timeout) })
		h.note("%s: %d, readable %v, exceptional %v", when, n, r.IsSet(fd), e.IsSet(fd))
		return os.NewSyscallError("select", err)
	}
	return h.readyAround(fd, look)
}

func readyLevel(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	look, err := h.epollLook(fd, 0)
	if err != nil {
		return err
	}
	return h.readyAround(fd, look)
}

// epollOf watches a socket with epoll. await returns the events there are; with patience -1 it waits until there are some.
func epollOf(fd int, flags uint32) (await func(patience int) (events uint32, err error), err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	watched := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | flags, Fd: int32(fd)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &watched); err != nil {
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return func(patience int) (uint32, error) {
		var events [1]unix.EpollEvent
		_, err := retryN(func() (int, error) { return unix.EpollWait(epoll, events[:], patience) })
		return events[0].Events, os.NewSyscallError("epoll_wait", err)
	}, nil
}

// epollLook is epollOf with a note of what was seen.
func (h *habit) epollLook(fd int, flags uint32) (look func(when string, patience int) error, err error) {
	await, err := epollOf(fd, flags)
	if err != nil {
		return nil, err
	}
	return func(when string, patience int) error {
		events, err := await(patience)
		h.note("%s: %s", when, eventNames(events))
		return err
	}, nil
}

// readyAround looks at a socket, by level, all through two exchanges.
func (h *habit) readyAround(fd int, look func(when string, patience int) error) error {
	for range 2 {
		if err := look("before the request", 0); err != nil {
			return err
		}
		if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
			return err
		}
		if err := look("when the answer comes", -1); err != nil {
			return err
		}
		part, err := receive(fd, 10, 0)
		if err != nil {
			return err
		}
		if err := look("when a part is read", 0); err != nil {
			return err
		}
		if err := h.noteAnswerAfter(fd, part); err != nil {
			return err
		}
	}
	return look("after the last answer", 0)
}

// readyEdge reads until EAGAIN and then waits for the next edge; the answer comes in two parts.
func readyEdge(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	await, err := epollOf(fd, unix.EPOLLET)
	if err != nil {
		return err
	}
	for range 2 {
		if err := sendAll(fd, getOf(partsQuestion), 0); err != nil {
			return err
		}
		if _, err := await(-1); err != nil {
			return err
		}
		got := drain(fd)
		// Whoever is late gets both parts at once.
		if len(got) < partsSize {
			if _, err := await(-1); err != nil {
				return err
			}
			got = append(got, drain(fd)...)
		}
		h.note("all came")
		if err := h.noteAnswerAfter(fd, got); err != nil {
			return err
		}
	}
	return nil
}

// drain reads until the socket has nothing to give.
func drain(fd int) []byte {
	var all []byte
	for {
		piece, err := receive(fd, 64<<10, unix.MSG_DONTWAIT)
		if err != nil {
			return all
		}
		all = append(all, piece...)
	}
}

func readyOneShot(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	look, err := h.epollLook(fd, unix.EPOLLONESHOT)
	if err != nil {
		return err
	}
	if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
		return err
	}
	if err := look("first", -1); err != nil {
		return err
	}
	if err := look("not armed again", 0); err != nil {
		return err
	}
	return h.noteAnswer(fd)
}

// catch counts a signal as handled; the runtime's handler has SA_RESTART.
func catch(signals ...os.Signal) (stop func()) {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, signals...)
	return func() { signal.Stop(caught) }
}

func readySignal(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, syscall.SIGIO)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, unix.Getpid()); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err := sendAll(fd, getOf(lateQuestion), 0); err != nil {
		return err
	}
	var got []byte
	for len(got) == 0 {
		select {
		case <-caught:
			got = drain(fd)
		case <-time.After(4 * time.Second):
			h.note("no signal")
			return nil
		}
	}
	h.note("a signal tells of the answer")
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return h.noteAnswerAfter(fd, got)
}

// readyHangup watches the server end the connection.
func readyHangup(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := sendAll(fd, lastQuestion, 0); err != nil {
		return err
	}
	if err := h.noteAnswer(fd); err != nil {
		return err
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if _, err := retryN(func() (int, error) { return unix.Poll(fds, -1) }); err != nil {
		return os.NewSyscallError("poll", err)
	}
	h.note("%s", eventNames(uint32(fds[0].Revents)))
	_, err = receive(fd, 1, 0)
	h.noteCall("recv", err)
	return nil
}
