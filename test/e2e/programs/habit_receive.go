// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveHabits are ways to take bytes from a socket.
var receiveHabits = habitKind{
	"receive by MSG_PEEK first":             receiveByPeek,
	"receive as much as FIONREAD says":      receiveByFIONREAD,
	"receive with MSG_WAITALL":              receiveWaitAll,
	"receive with MSG_DONTWAIT":             receiveDontWait,
	"receive with MSG_TRUNC":                receiveTruncated,
	"receive with MSG_TRUNC and no buffer":  receiveTruncatedToNothing,
	"receive with SO_RCVTIMEO":              receiveTimeout,
	"receive with SO_RCVLOWAT":              receiveLowWater,
	"poll with SO_RCVLOWAT":                 pollLowWater,
	"receive by readv":                      receiveVector,
	"receive by recvmmsg":                   receiveMessages,
	"receive by splice":                     receiveSplice,
	"receive with MSG_OOB":                  receiveUrgent,
	"receive errors, and nothing":           receiveOther,
	"receive in one thread, send in others": receiveBesideSend,
	"receive interrupted by a signal":       receiveInterrupted,
}

// sent dials, and sends a request for path.
func (h *habit) sent(path string) (int, error) {
	fd, err := h.dial()
	if err != nil {
		return 0, err
	}
	return fd, sendAll(fd, getOf(path), 0)
}

func receiveByPeek(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	var peeked [2][]byte
	for i := range peeked {
		if peeked[i], err = receive(fd, 4096, unix.MSG_PEEK); err != nil {
			return err
		}
	}
	short, err := receive(fd, 9, unix.MSG_PEEK)
	if err != nil {
		return err
	}
	got, err := receive(fd, len(peeked[1]), 0)
	if err != nil {
		return err
	}
	h.note("a second look shows at least the first: %v", bytes.HasPrefix(peeked[1], peeked[0]))
	h.note("a short look shows %q", short)
	h.note("reading gives what was seen: %v", bytes.Equal(got, peeked[1]))
	if err := h.noteAnswerAfter(fd, got); err != nil {
		return err
	}
	return h.ask(fd, plainQuestion)
}

func receiveByFIONREAD(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	available := func(when string) (int, error) {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		h.note("%s there is something: %v", when, n > 0)
		return n, os.NewSyscallError("ioctl", err)
	}
	if _, err := available("at first"); err != nil {
		return err
	}
	if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
		return err
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	n, err := available("when poll says so")
	if err != nil {
		return err
	}
	got, err := receive(fd, max(n, 1), unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	h.note("as much can be read: %v", len(got) == n)
	if err := h.noteAnswerAfter(fd, got); err != nil {
		return err
	}
	_, err = available("in the end")
	unsent, ioctlErr := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	h.note("bytes not yet acknowledged after the answer: %v, %s", unsent > 0, describe(ioctlErr))
	return err
}

func receiveWaitAll(h *habit) error {
	fd, err := h.sent(partsQuestion)
	if err != nil {
		return err
	}
	got, err := receive(fd, partsSize, unix.MSG_WAITALL)
	if err != nil {
		return err
	}
	h.note("it waits for all it asked for: %v", len(got) == partsSize)
	return h.noteAnswerAfter(fd, got)
}

func receiveDontWait(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	_, err = receive(fd, 4096, unix.MSG_DONTWAIT)
	h.noteCall("before the request", err)
	if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
		return err
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	got, err := receive(fd, 4096, unix.MSG_DONTWAIT)
	h.noteCall("after poll", err)
	if err := h.noteAnswerAfter(fd, got); err != nil {
		return err
	}
	_, err = receive(fd, 4096, unix.MSG_DONTWAIT)
	h.noteCall("after the answer", err)
	return nil
}

// receiveTruncated throws the status line away, as tcp(7) lets it.
func receiveTruncated(h *habit) error {
	const status = "HTTP/1.1 200 OK\r\n"
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	thrown, err := receive(fd, len(status), unix.MSG_TRUNC)
	if err != nil {
		return err
	}
	h.note("thrown away: %d", len(thrown))
	return h.noteAnswerAfter(fd, []byte(status))
}

// receiveTruncatedToNothing throws the status line away without a buffer for it.
func receiveTruncatedToNothing(h *habit) error {
	status := []byte("HTTP/1.1 200 OK\r\n")
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(len(status)), unix.MSG_TRUNC, 0, 0)
	if errno != 0 {
		h.noteCall("throw away", errno)
		return h.noteAnswer(fd)
	}
	h.note("throw away: %d", n)
	return h.noteAnswerAfter(fd, status)
}

func receiveTimeout(h *habit) error {
	const patience = 100 * time.Millisecond
	fd, err := h.sent(noAnswer)
	if err != nil {
		return err
	}
	if err := setTimeout(fd, unix.SO_RCVTIMEO, patience); err != nil {
		return err
	}
	began := time.Now()
	_, err = receive(fd, 4096, 0)
	h.noteCall("where no answer comes", err)
	// The kernel counts ticks of its own, of which the first is short.
	h.note("it waited: %v", time.Since(began) >= patience/2)
	return h.askAnew()
}

func receiveLowWater(h *habit) error {
	return h.lowWater("it waits for so much", func(fd int) ([]byte, error) { return receive(fd, 2*partsSize, 0) })
}

func pollLowWater(h *habit) error {
	return h.lowWater("poll waits for so much", func(fd int) ([]byte, error) {
		if _, err := readable(fd, -1); err != nil {
			return nil, err
		}
		return receive(fd, 2*partsSize, unix.MSG_DONTWAIT)
	})
}

// lowWater asks for an answer in parts, with SO_RCVLOWAT above the first.
func (h *habit) lowWater(what string, wait func(fd int) ([]byte, error)) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := setInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, lowWater); err != nil {
		return err
	}
	if err := sendAll(fd, getOf(partsQuestion), 0); err != nil {
		return err
	}
	got, err := wait(fd)
	if err != nil {
		return err
	}
	h.note("%s: %v", what, len(got) >= lowWater)
	if err := setInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1); err != nil {
		return err
	}
	return h.noteAnswerAfter(fd, got)
}

func receiveVector(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	got, _, err := readVector(fd, 30, 0)
	if err != nil {
		return err
	}
	h.note("readv filled %d bytes", len(got))
	return h.noteAnswerAfter(fd, got)
}

func receiveMessages(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	first, second := make([]byte, 10), make([]byte, 10)
	messages := []mmsghdr{messageOf(first), messageOf(second)}
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages[0])), 2, 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("recvmmsg", errno)
	}
	h.note("recvmmsg filled %d messages with %d and %d bytes", n, messages[0].length, messages[1].length)
	return h.noteAnswerAfter(fd, append(first, second...))
}

// receiveSplice moves what poll tells of into a pipe. What splice does not see, it reads.
func receiveSplice(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	got, err := spliceFrom(fd, 4096)
	h.noteCall("splice", err)
	return h.noteAnswerAfter(fd, got)
}

func receiveUrgent(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	got, err := receive(fd, 1, unix.MSG_OOB)
	h.noteCall("recv where nothing is urgent", err)
	return h.noteAnswerAfter(fd, got)
}

func receiveOther(h *habit) error {
	fd, err := h.sent(plainQuestion)
	if err != nil {
		return err
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	_, err = receive(fd, 1, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	h.noteCall("MSG_ERRQUEUE where there is no error", err)
	n, _, err := unix.Recvfrom(fd, []byte{}, unix.MSG_DONTWAIT)
	h.note("no buffer: %d, %s", n, describe(err))
	return h.noteAnswer(fd)
}

// receiveBesideSend sleeps in recv before the request is sent.
func receiveBesideSend(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	for range 3 {
		answered := make(chan error, 1)
		go func() { answered <- h.noteAnswer(fd) }()
		untilBlocked()
		if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
			return err
		}
		if err := <-answered; err != nil {
			return err
		}
	}
	return nil
}

// untilBlocked gives the others the time to block in a call. If one is late, less is tested, and nothing fails.
func untilBlocked() { time.Sleep(50 * time.Millisecond) }

// receiveInterrupted gets a signal whose handler asks for calls to be restarted.
func receiveInterrupted(h *habit) error {
	fd, err := h.sent(lateQuestion)
	if err != nil {
		return err
	}
	stop := catch(unix.SIGUSR1)
	defer stop()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	go func() {
		untilBlocked()
		_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGUSR1)
	}()
	buffer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buffer, 0)
	h.noteCall("recv", err)
	return h.noteAnswerAfter(fd, buffer[:max(n, 0)])
}
