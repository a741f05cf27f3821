// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxLine is how many bytes of a line are given to Command.Output.
const maxLine = 8 << 10

// output is the end of a pipe that the daemon reads. Its other end is the program's, and all that the program gives it to.
type output struct {
	file *os.File
	// isOver: the program has ended, and left is how many bytes of its output the pipe may still have. Both are the reader's.
	isOver bool
	left   int
}

// newPipe returns both ends of a pipe that a user may open by /dev/stdout: it is the user's.
func newPipe(user uint32) (*output, *os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe2: %w", err)
	}
	// One that does not block is watched by the runtime's own poller: no thread waits for output. The program's end blocks, as it expects of its output.
	err := unix.SetNonblock(fds[0], true)
	if err == nil {
		err = unix.Fchown(fds[1], int(user), int(user))
	}
	r, w := os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output")
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, fmt.Errorf("give a pipe to user %d: %w (CAP_CHOWN is needed)", user, err)
	}
	return &output{file: r}, w, nil
}

// end has reading come to an end with what the pipe has now. The program may have given its end to a process that is not confined and writes on: the pipe's
// own end may never come.
func (o *output) end() { _ = o.file.SetReadDeadline(time.Unix(1, 0)) }

// Read is that of io.Reader.
func (o *output) Read(b []byte) (int, error) {
	if !o.isOver {
		n, err := o.file.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		o.isOver, o.left = true, o.capacity()
	}
	return o.readRest(b)
}

// readRest reads without waiting, which os.File does not do after a deadline.
func (o *output) readRest(b []byte) (n int, err error) {
	if o.left <= 0 {
		return 0, io.EOF
	}
	controlErr := o.control(func(fd int) {
		for n, err = unix.Read(fd, b); errors.Is(err, unix.EINTR); {
			n, err = unix.Read(fd, b)
		}
	})
	if controlErr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	o.left -= n
	return n, nil
}

// capacity is how many bytes the pipe can have; the program may have changed it.
func (o *output) capacity() (size int) {
	err := o.control(func(fd int) { size, _ = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0) })
	if err != nil {
		return 0
	}
	return size
}

func (o *output) control(f func(fd int)) error {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// eachLine gives the lines that are read, without their newlines, to give: of each at most maxLine bytes, with or without a newline behind the last one. It
// returns when there is nothing more to read.
func eachLine(r io.Reader, give func(line []byte)) {
	lines := bufio.NewReaderSize(r, maxLine)
	for isRest := false; ; {
		line, err := lines.ReadSlice('\n')
		if !isRest && len(line) > 0 {
			give(bytes.TrimSuffix(line, []byte("\n")))
		}
		isRest = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !isRest {
			return
		}
	}
}
