// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendHabits are ways to give bytes to a socket.
var sendHabits = habitKind{
	"send by writev":   sendWith(sendVector),
	"send by sendmmsg": sendWith(sendMessages),
	"send by sendfile": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head, 0), sendFile(fd, content))
	}),
	"send by splice": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head, 0), spliceInto(fd, content))
	}),
	"send head and body by splice": sendWith(func(fd int, head, content []byte) error {
		return spliceInto(fd, append(head, content...))
	}),
	"send with MSG_MORE": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head, unix.MSG_MORE), sendAll(fd, content, 0))
	}),
	"send half a head with MSG_MORE": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head[:20], unix.MSG_MORE), sendAll(fd, head[20:], 0), sendAll(fd, content, 0))
	}),
	"send with TCP_CORK":                sendWith(sendCorked),
	"send with TCP_CORK until shutdown": sendCorkedUntilShutdown,
	"send with TCP_NODELAY":             sendNoDelay,
	"send with MSG_DONTWAIT": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head, unix.MSG_DONTWAIT), sendAll(fd, content, unix.MSG_DONTWAIT))
	}),
	"send with MSG_EOR and MSG_CONFIRM": sendWith(func(fd int, head, content []byte) error {
		return errors.Join(sendAll(fd, head, unix.MSG_CONFIRM), sendAll(fd, content, unix.MSG_EOR))
	}),
	"send nothing":                             sendNothing,
	"send to an address":                       sendToAddress,
	"send with SO_SNDTIMEO":                    sendTimeout,
	"send out of band":                         sendOutOfBand,
	"MSG_ZEROCOPY asked for before connect":    sendZerocopyFirst,
	"MSG_ZEROCOPY asked for after connect":     sendZerocopyLater,
	"MSG_ZEROCOPY asked for after an exchange": sendZerocopyAfterExchange,
	"MSG_ZEROCOPY not asked for":               sendZerocopyUnasked,
	"MSG_FASTOPEN":                             sendFastOpen,
}

// sendWith makes a habit of a way to send a head and a body: twice, then a plain request.
func sendWith(send func(fd int, head, content []byte) error) func(h *habit) error {
	return func(h *habit) error {
		fd, err := h.dial()
		if err != nil {
			return err
		}
		for _, size := range []int64{1000, 50_000} {
			content := uploadOf(size)
			if err := send(fd, postOf(plainQuestion, len(content)), content); err != nil {
				return err
			}
			if err := h.noteAnswer(fd); err != nil {
				return err
			}
		}
		return h.ask(fd, plainQuestion)
	}
}

// sendCorkedUntilShutdown never removes the cork: the half close sends what it held.
func sendCorkedUntilShutdown(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := setInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1); err != nil {
		return err
	}
	if err := sendAll(fd, getOf(plainQuestion), 0); err != nil {
		return err
	}
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		return os.NewSyscallError("shutdown", err)
	}
	if _, err := readable(fd, -1); err != nil {
		return err
	}
	return h.noteAnswer(fd)
}

func sendNoDelay(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY)
	h.note("TCP_NODELAY reads back %d, %s", on, describe(err))
	return h.ask(fd, plainQuestion)
}

// sendNothing makes calls without bytes around a request.
func sendNothing(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	empty := func(when string) {
		n, err := unix.SendmsgN(fd, nil, nil, nil, 0)
		h.note("%s: %d, %s", when, n, describe(err))
		n, err = unix.Write(fd, nil)
		h.note("%s, write: %d, %s", when, n, describe(err))
	}
	empty("before")
	head, content := postOf(plainQuestion, 3), []byte("abc")
	if err := sendAll(fd, head, 0); err != nil {
		return err
	}
	empty("between head and body")
	if err := sendAll(fd, content, 0); err != nil {
		return err
	}
	if err := h.noteAnswer(fd); err != nil {
		return err
	}
	empty("after")
	return h.ask(fd, plainQuestion)
}

// sendToAddress names an address although the socket is connected.
func sendToAddress(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	n, err := unix.SendmsgN(fd, getOf(plainQuestion), nil, to, 0)
	h.note("all of it: %v, %s", n == len(getOf(plainQuestion)), describe(err))
	return h.noteAnswer(fd)
}

// sendTimeout sends more than anybody takes.
func sendTimeout(h *habit) error {
	const most, patience = 1 << 30, 300 * time.Millisecond
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := setTimeout(fd, unix.SO_SNDTIMEO, patience); err != nil {
		return err
	}
	if err := sendAll(fd, postOf(noAnswer, most), 0); err != nil {
		return err
	}
	piece, sent := make([]byte, 64<<10), 0
	var took time.Duration
	for err == nil && sent < most {
		began := time.Now()
		_, err = unix.SendmsgN(fd, piece, nil, nil, unix.MSG_NOSIGNAL)
		took = time.Since(began)
		sent += len(piece)
	}
	h.noteCall("when nobody takes more", err)
	h.note("it waited: %v", took >= patience/2)
	// Direct and through XLB the buffers differ; neither takes so much.
	h.note("less than a quarter was taken: %v", sent < most/4)
	return nil
}

// sendOutOfBand sends an urgent byte between two requests. Without SO_OOBINLINE the server does not read it with the rest.
func sendOutOfBand(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	_, err = unix.SendmsgN(fd, []byte{'!'}, nil, nil, unix.MSG_OOB)
	h.noteCall("send with MSG_OOB", err)
	return h.ask(fd, plainQuestion)
}

func sendZerocopyFirst(h *habit) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	h.noteCall("SO_ZEROCOPY before connect", setInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1))
	if err := unix.Connect(fd, sockaddr4(h.to)); err != nil {
		return os.NewSyscallError("connect", err)
	}
	return h.sendZerocopy(fd, true)
}

func sendZerocopyLater(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	return h.sendZerocopyAfter(fd)
}

func sendZerocopyAfterExchange(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := h.ask(fd, plainQuestion); err != nil {
		return err
	}
	return h.sendZerocopyAfter(fd)
}

// sendZerocopyAfter asks for MSG_ZEROCOPY, and does without if it is refused: kernels and protocols refuse it.
func (h *habit) sendZerocopyAfter(fd int) error {
	granted := setInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
	h.noteCall("SO_ZEROCOPY", granted)
	return h.sendZerocopy(fd, granted == nil)
}

func sendZerocopyUnasked(h *habit) error {
	fd, err := h.dial()
	if err != nil {
		return err
	}
	if err := sendAll(fd, getOf(plainQuestion), unix.MSG_ZEROCOPY); err != nil {
		return err
	}
	return h.noteAnswer(fd)
}

// sendZerocopy makes requests, and if they may be sent so, waits for the completions before it uses the memory again.
func (h *habit) sendZerocopy(fd int, granted bool) error {
	flags := 0
	if granted {
		flags = unix.MSG_ZEROCOPY
	}
	for range 2 {
		content := uploadOf(30_000)
		if err := sendAll(fd, append(postOf(plainQuestion, len(content)), content...), flags); err != nil {
			return err
		}
		if err := h.noteAnswer(fd); err != nil {
			return err
		}
		if !granted {
			h.note("the memory is free at once")
			continue
		}
		done, err := completed(fd, completionPatience)
		if err != nil {
			return err
		}
		if !done {
			return errors.New("the completion does not come")
		}
		h.note("the memory is free when the completion comes")
	}
	return nil
}

// sendFastOpen connects and sends in one call.
func sendFastOpen(h *habit) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	request := getOf(plainQuestion)
	n, err := unix.SendmsgN(fd, request, nil, sockaddr4(h.to), unix.MSG_FASTOPEN)
	if err != nil {
		return os.NewSyscallError("sendto", err)
	}
	if n != len(request) {
		return fmt.Errorf("sendto took %d bytes", n)
	}
	if err := h.noteAnswer(fd); err != nil {
		return err
	}
	return h.ask(fd, plainQuestion)
}
