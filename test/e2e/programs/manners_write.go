// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Manners of writing.
const (
	WritePlain    = "plain"
	WriteParts    = "parts"
	WriteBytes    = "bytes"
	WriteVector   = "writev"
	WriteMessages = "sendmmsg"
	WriteSendfile = "sendfile"
	WriteSplice   = "splice"
	WriteMore     = "more"
	WriteCork     = "cork"
	WriteZerocopy = "zerocopy"
	// WriteNothing reads no body, gives no answer, and ends the connection after a while.
	WriteNothing = "nothing"
)

type writer func(c *mannersConn, head, content []byte, pause time.Duration) error

var writers = map[string]writer{
	WritePlain: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return sendAll(c.fd, append(head, content...), 0)
	},
	WriteParts: (*mannersConn).writeParts,
	WriteBytes: (*mannersConn).writeBytes,
	WriteVector: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return sendVector(c.fd, head, content)
	},
	WriteMessages: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return sendMessages(c.fd, head, content)
	},
	WriteSendfile: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return errors.Join(sendAll(c.fd, head, unix.MSG_MORE), sendFile(c.fd, content))
	},
	WriteSplice: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return errors.Join(sendAll(c.fd, head, 0), spliceInto(c.fd, content))
	},
	WriteMore: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return errors.Join(sendAll(c.fd, head, unix.MSG_MORE), sendAll(c.fd, content, 0))
	},
	WriteCork: func(c *mannersConn, head, content []byte, _ time.Duration) error {
		return sendCorked(c.fd, head, content)
	},
	WriteZerocopy: (*mannersConn).writeZerocopy,
	WriteNothing: func(_ *mannersConn, _, _ []byte, _ time.Duration) error {
		time.Sleep(3 * time.Second)
		return errLastAnswer
	},
}

// Writers lists the manners of writing in which an answer comes.
func Writers() []string {
	names := slices.Sorted(maps.Keys(writers))
	return slices.DeleteFunc(names, func(name string) bool { return name == WriteNothing })
}

// writeParts writes the head and a quarter of the body, pauses, and writes the rest.
func (c *mannersConn) writeParts(head, content []byte, pause time.Duration) error {
	first := len(content) / 4
	if err := sendAll(c.fd, append(head, content[:first]...), 0); err != nil {
		return err
	}
	time.Sleep(pause)
	return sendAll(c.fd, content[first:], 0)
}

func (c *mannersConn) writeBytes(head, content []byte, _ time.Duration) error {
	for _, b := range append(head, content...) {
		if err := sendAll(c.fd, []byte{b}, 0); err != nil {
			return err
		}
	}
	return nil
}

// writeZerocopy sends with MSG_ZEROCOPY and waits a moment for the completion.
func (c *mannersConn) writeZerocopy(head, content []byte, _ time.Duration) error {
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
		// As programs do that know kernels and protocols without it.
		return sendAll(c.fd, append(head, content...), 0)
	}
	if err := sendAll(c.fd, append(head, content...), unix.MSG_ZEROCOPY); err != nil {
		return err
	}
	done, err := completed(c.fd, completionPatience)
	if done {
		c.server.completed.Add(1)
	} else {
		c.server.missed.Add(1)
	}
	return err
}

// completionPatience bounds the wait for a completion of MSG_ZEROCOPY, in
// milliseconds. Over loopback they come with the receiver's read.
const completionPatience = 1000

// completed waits for a completion of MSG_ZEROCOPY on the error queue.
func completed(fd, patience int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	if _, err := retryN(func() (int, error) { return unix.Poll(fds, patience) }); err != nil {
		return false, os.NewSyscallError("poll", err)
	}
	control := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(fd, nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		// struct sock_extended_err: ee_origin is its fifth byte.
		if m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR && len(m.Data) > 4 {
			return m.Data[4] == unix.SO_EE_ORIGIN_ZEROCOPY, nil
		}
	}
	return false, nil
}

// sendAll repeats send(2) until everything is sent.
func sendAll(fd int, b []byte, flags int) error {
	for len(b) > 0 {
		n, err := retryN(func() (int, error) { return unix.SendmsgN(fd, b, nil, nil, flags|unix.MSG_NOSIGNAL) })
		if err != nil {
			return os.NewSyscallError("send", err)
		}
		b = b[n:]
	}
	return nil
}

// sendVector sends both in one writev(2), and what it leaves in others.
func sendVector(fd int, head, content []byte) error {
	n, err := retryN(func() (int, error) { return unix.Writev(fd, [][]byte{head, content}) })
	if err != nil {
		return os.NewSyscallError("writev", err)
	}
	return sendAll(fd, append(head, content...)[n:], 0)
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

// messageOf makes b, which must not be empty, the buffer of a message.
func messageOf(b []byte) mmsghdr {
	vector := &unix.Iovec{Base: &b[0]}
	vector.SetLen(len(b))
	m := mmsghdr{header: unix.Msghdr{Iov: vector}}
	m.header.SetIovlen(1)
	return m
}

// sendMessages sends both in one sendmmsg(2). The socket's buffer must have room.
func sendMessages(fd int, head, content []byte) error {
	messages := []mmsghdr{messageOf(head), messageOf(content)}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages[0])), 2, 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("sendmmsg", errno)
	}
	if n != 2 || int(messages[1].length) != len(content) {
		return fmt.Errorf("sendmmsg: %d messages, %d bytes of the second", n, messages[1].length)
	}
	return nil
}

// sendFile sends content with sendfile(2).
func sendFile(fd int, content []byte) error {
	file, err := os.CreateTemp("", "sendfile")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return err
	}
	for offset := int64(0); offset < int64(len(content)); {
		n, err := retryN(func() (int, error) {
			return unix.Sendfile(fd, int(file.Fd()), &offset, len(content)-int(offset))
		})
		if err != nil {
			return os.NewSyscallError("sendfile", err)
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// spliceInto sends content by way of a pipe.
func spliceInto(fd int, content []byte) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for len(content) > 0 {
		// What a pipe holds.
		held, err := unix.Write(pipe[1], content[:min(len(content), 32<<10)])
		if err != nil {
			return os.NewSyscallError("write to the pipe", err)
		}
		for left := held; left > 0; {
			n, err := unix.Splice(pipe[0], nil, fd, nil, left, unix.SPLICE_F_MOVE)
			if err != nil {
				return os.NewSyscallError("splice", err)
			}
			left -= int(n)
		}
		content = content[held:]
	}
	return nil
}

// sendCorked holds the head back until the body is written too.
func sendCorked(fd int, head, content []byte) error {
	cork := func(on int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, on))
	}
	return errors.Join(cork(1), sendAll(fd, head, 0), sendAll(fd, content, 0), cork(0))
}
