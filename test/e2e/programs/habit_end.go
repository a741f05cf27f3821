// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endHabits are ways to end a connection, and to notice its end.
var endHabits = habitKind{
	"half close after the request":       endHalf,
	"half close, then recv without poll": endHalfBlocking,
	"half close, then send":              endHalfThenSend,
	"half close for reading":             endReading,
	"SO_LINGER 0":                        endReset,
	"SO_LINGER 5":                        endLinger,
	"write after the end":                endWrite,
	"close without reading":              endUnread,
}

// lastQuestion is answered, and then the server closes.
var lastQuestion = []byte("GET " + plainQuestion + " HTTP/1.1\r\nHost: e2e.test\r\nConnection: close\r\n\r\n")

// pointerTo is for calls that package unix has no wrapper for.
func pointerTo[T any](value *T) unsafe.Pointer { return unsafe.Pointer(value) }

// endHalf waits with poll, as most do that half-close.
func endHalf(h *habit) error {
	fd, err := h.sent(lateQuestion)
	if err != nil {
		return err
	}
	h.noteCall("shutdown", unix.Shutdown(fd, unix.SHUT_WR))
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	if err := h.noteAnswer(fd); err != nil {
		return err
	}
	return h.noteEnd(fd)
}

// noteEnd notes that nothing follows.
func (h *habit) noteEnd(fd int) error {
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	_, err := receive(fd, 1, 0)
	h.note("then the end: %v", errors.Is(err, io.EOF))
	return nil
}

// endHalfBlocking sleeps in recv when its FIN is acknowledged.
func endHalfBlocking(h *habit) error {
	fd, err := h.sent(lateQuestion)
	if err != nil {
		return err
	}
	h.noteCall("shutdown", unix.Shutdown(fd, unix.SHUT_WR))
	got, err := receive(fd, 10, 0)
	h.noteCall("recv", err)
	if err := h.noteAnswerAfter(fd, got); err != nil {
		return err
	}
	return h.noteEnd(fd)
}

func endHalfThenSend(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	h.noteCall("shutdown", unix.Shutdown(fd, unix.SHUT_WR))
	_, err = unix.SendmsgN(fd, getOf(plainQuestion), nil, nil, unix.MSG_NOSIGNAL)
	h.noteCall("send", err)
	return nil
}

func endReading(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	h.noteCall("shutdown", unix.Shutdown(fd, unix.SHUT_RD))
	_, err = receive(fd, 1, unix.MSG_DONTWAIT)
	h.noteCall("recv after shutdown", err)
	return nil
}

func endReset(h *habit) error {
	for _, path := range []string{plainQuestion, lateQuestion, "/plain?size=10000000&seed=4"} {
		fd, err := h.sent(path)
		if err != nil {
			return err
		}
		if err := endLingering(h, fd, 0); err != nil {
			return err
		}
	}
	return h.askAnew()
}

func endLinger(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	if err := endLingering(h, fd, 5); err != nil {
		return err
	}
	return h.askAnew()
}

func endLingering(h *habit, fd int, seconds int32) error {
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: seconds}); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	h.noteCall("close", unix.Close(fd))
	return nil
}

// askAnew asks on a new connection.
func (h *habit) askAnew() error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	return h.ask(fd, plainQuestion)
}

// endUnread closes with an answer in the queue.
func endUnread(h *habit) error {
	for range 5 {
		fd, err := h.sent(plainQuestion)
		if err != nil {
			return err
		}
		if _, err := readable(fd, -1); err != nil {
			return err
		}
		h.noteCall("close", unix.Close(fd))
	}
	return h.askAnew()
}

// endWrite goes on writing after the server has closed.
func endWrite(h *habit) error {
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
	_, err = receive(fd, 1, 0)
	h.noteCall("recv", err)
	piped := make(chan os.Signal, 16)
	signal.Notify(piped, syscall.SIGPIPE)
	for err = nil; err == nil || errors.Is(err, io.EOF); {
		_, err = unix.SendmsgN(fd, getOf(plainQuestion), nil, nil, 0)
	}
	// The first error may be that of the reset; then comes EPIPE.
	if errors.Is(err, unix.ECONNRESET) {
		_, err = unix.SendmsgN(fd, getOf(plainQuestion), nil, nil, 0)
	}
	h.noteCall("send in the end", err)
	select {
	case <-piped:
		h.note("SIGPIPE comes")
	case <-time.After(time.Second):
		h.note("SIGPIPE does not come")
	}
	_, err = unix.SendmsgN(fd, getOf(plainQuestion), nil, nil, unix.MSG_NOSIGNAL)
	h.noteCall("send with MSG_NOSIGNAL", err)
	return nil
}
