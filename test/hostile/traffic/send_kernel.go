// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/uring"
)

// Ways of the kernel to send.
const (
	KindSendfile = "sendfile"
	KindSplice   = "splice"
	KindWritev   = "writev"
	KindMore     = "more"
	KindZerocopy = "zerocopy"
	KindURing    = "io_uring"
	KindSignals  = "signals"
	KindForked   = "forked"
	KindPassed   = "passed"
	KindTorn     = "torn"
	KindChanger  = "changer"
)

func init() {
	for kind, send := range map[string]func(c *conn, request []byte, body int) error{
		KindSendfile: sendFile, KindSplice: sendSplice, KindWritev: sendWritev, KindMore: sendMore, KindZerocopy: sendZerocopy,
		KindURing: sendURing, KindSignals: sendSignals, KindForked: sendForked, KindPassed: sendPassed, KindTorn: sendTorn,
		KindChanger: sendChanger,
	} {
		senders[kind] = send
	}
}

// memoryFile is a file that holds b.
func memoryFile(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "memory")
	if _, err := file.Write(b); err != nil {
		file.Close()
		return nil, err
	}
	_, err = file.Seek(0, 0)
	return file, err
}

// sendFile sends the head, and the body from a file.
func sendFile(c *conn, request []byte, body int) error {
	if c.random.IntN(2) == 0 {
		if err := c.sendAll(request[:body], unix.MSG_MORE*c.random.IntN(2)); err != nil {
			return err
		}
		request = request[body:]
	}
	file, err := memoryFile(request)
	if err != nil {
		return err
	}
	defer file.Close()
	for left := len(request); left > 0; {
		n, err := unix.Sendfile(c.fd, int(file.Fd()), nil, left)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("sendfile sends nothing")
		}
		left -= n
	}
	return nil
}

// sendSplice moves the request through a pipe.
func sendSplice(c *conn, request []byte, _ int) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	const pipeSize = 32 << 10
	for piece := range slices.Chunk(request, pipeSize) {
		if _, err := unix.Write(ends[1], piece); err != nil {
			return err
		}
		for left := len(piece); left > 0; {
			n, err := unix.Splice(ends[0], nil, c.fd, nil, left, unix.SPLICE_F_MORE*c.random.IntN(2))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return err
			}
			left -= int(n)
		}
	}
	return nil
}

// sendWritev sends some pieces with each call.
func sendWritev(c *conn, request []byte, _ int) error {
	for len(request) > 0 {
		var pieces [][]byte
		rest := request
		for i := 0; len(rest) > 0 && i < 20; i++ {
			n := min(len(rest), 1+c.random.IntN(1<<(1+c.random.IntN(14))))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		n, err := unix.Writev(c.fd, pieces)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		request = request[max(n, 0):]
	}
	return nil
}

// sendMore says of each piece but the last that more is to come.
func sendMore(c *conn, request []byte, body int) error {
	if err := c.sendAll(request[:body], unix.MSG_MORE); err != nil {
		return err
	}
	left := len(request) - body
	return c.inPieces(request[body:], func(piece []byte) error {
		left -= len(piece)
		if left > 0 {
			return c.sendAll(piece, unix.MSG_MORE)
		}
		return c.sendAll(piece, 0)
	})
}

// sendZerocopy leaves its memory to the kernel, if that takes it. Nobody else may use that again as long as the connection has unsent bytes: so it
// is none of the collector's.
func sendZerocopy(c *conn, request []byte, _ int) error {
	lent, err := unix.Mmap(-1, 0, len(request), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	c.lent = append(c.lent, lent)
	copy(lent, request)
	request = lent
	flags := 0
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1) == nil {
		flags = unix.MSG_ZEROCOPY
	}
	return c.inPieces(request, func(piece []byte) error {
		err := c.sendAll(piece, flags)
		if errors.Is(err, unix.ENOBUFS) {
			// Completions that nobody has read hold memory.
			c.readCompletions()
			err = c.sendAll(piece, 0)
		}
		return err
	})
}

func (c *conn) readCompletions() {
	control := make([]byte, 256)
	for {
		if _, _, _, _, err := unix.Recvmsg(c.fd, nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); err != nil {
			return
		}
	}
}

// sendURing has the kernel send.
func sendURing(c *conn, request []byte, body int) error {
	ring, err := uring.New(c.fd)
	if err != nil {
		c.count("io_uring is refused")
		return sendPieces(c, request, body)
	}
	defer ring.Close()
	for len(request) > 0 {
		n, err := ring.Write(request[:min(len(request), 1+c.random.IntN(len(request)))])
		if err != nil {
			return err
		}
		request = request[n:]
	}
	return nil
}

// sendSignals is interrupted all the while.
func sendSignals(c *conn, request []byte, body int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	var storm sync.WaitGroup
	over := make(chan bool)
	storm.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGUSR1)
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	err := sendPieces(c, request, body)
	close(over)
	storm.Wait()
	return err
}

// sendForked has a child send the rest, from a file.
func sendForked(c *conn, request []byte, body int) error {
	at := body + (len(request)-body)*c.order.At/1000
	if err := c.sendAll(request[:at], 0); err != nil {
		return err
	}
	file, err := memoryFile(request[at:])
	if err != nil {
		return err
	}
	defer file.Close()
	own, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	socket := os.NewFile(uintptr(own), "socket")
	defer socket.Close()
	child := exec.Command("cat")
	child.Stdin, child.Stdout = file, socket
	return child.Run()
}

// sendPassed passes the socket on to a process that sends the rest.
func sendPassed(c *conn, request []byte, body int) error {
	at := body + (len(request)-body)*c.order.At/1000
	if err := c.sendAll(request[:at], 0); err != nil {
		return err
	}
	return c.heir.send(c.fd, request[at:])
}

// sendTorn has threads send parts of the body at once: in which order these come, and where they are cut, nobody knows.
func sendTorn(c *conn, request []byte, body int) error {
	if err := c.sendAll(request[:body], 0); err != nil {
		return err
	}
	request = request[body:]
	const threads = 3
	errs := make([]error, threads)
	var running sync.WaitGroup
	for i := range threads {
		part := request[len(request)*i/threads : len(request)*(i+1)/threads]
		running.Go(func() { errs[i] = c.sendAll(part, 0) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// sendChanger sends something else in place of what was not taken: what a program has seen of a message is not what the endpoint gets.
func sendChanger(c *conn, request []byte, body int) error {
	n, err := unix.SendmsgN(c.fd, request, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err != nil {
		n = 0
	}
	if n == len(request) {
		return nil
	}
	c.count("sends cut short")
	// What was to come is as long, and of nobody's stream: whoever executes it executes what no route allows.
	rest := make([]byte, 0, len(request)-max(n, body))
	for len(rest) < cap(rest) {
		bait := fmt.Appendf(nil, "GET /internal/%s@%08x HTTP/1.1\r\nHost: bait.test\r\n\r\n", c.id, len(rest))
		rest = append(rest, bait[:min(len(bait), cap(rest)-len(rest))]...)
	}
	const method = len("POST /")
	switch {
	case n < method:
		other := bytes.Replace(request[:body], []byte(" /"), []byte(" /internal/"), 1)
		rest = append(other[n:len(other):len(other)], rest...)
	case n < body:
		rest = append(request[n:body:body], rest...)
	}
	return sendNonblocking(c, rest, 0)
}
