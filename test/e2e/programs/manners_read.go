// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// reader gets some bytes, at most limit. If need is not 0, so many are known to
// come. saw tells what was not as the manuals say, if anything was. The end of the
// stream is io.EOF.
type reader func(fd, limit, need int) (piece []byte, saw string, err error)

// Manners of reading.
const (
	ReadPlain    = "plain"
	ReadPeek     = "peek"
	ReadWaitAll  = "waitall"
	ReadFIONREAD = "fionread"
	ReadLowWater = "rcvlowat"
	ReadVector   = "readv"
	ReadSplice   = "splice"
)

var readers = map[string]reader{
	ReadPlain:    readPlain,
	ReadPeek:     readPeek,
	ReadWaitAll:  readWaitAll,
	ReadFIONREAD: readFIONREAD,
	ReadLowWater: readLowWater,
	ReadVector:   readVector,
	ReadSplice:   readSplice,
}

// Readers lists the manners of reading.
func Readers() []string { return slices.Sorted(maps.Keys(readers)) }

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// receive is recv(2), with the end of the stream as an error.
func receive(fd, limit, flags int) ([]byte, error) {
	buffer := make([]byte, limit)
	n, err := retryN(func() (int, error) {
		n, _, err := unix.Recvfrom(fd, buffer, flags)
		return n, err
	})
	if err != nil {
		return nil, os.NewSyscallError("recv", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	return buffer[:n], nil
}

// readable waits until poll says that there is something, or patience (in
// milliseconds, -1 for ever) has passed.
func readable(fd, patience int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := retryN(func() (int, error) { return unix.Poll(fds, patience) })
	return n > 0, os.NewSyscallError("poll", err)
}

func readPlain(fd, limit, _ int) ([]byte, string, error) {
	piece, err := receive(fd, limit, 0)
	return piece, "", err
}

// readPeek looks at the bytes first, and then takes exactly those.
func readPeek(fd, limit, _ int) ([]byte, string, error) {
	peeked, err := receive(fd, limit, unix.MSG_PEEK)
	if err != nil {
		return nil, "", err
	}
	piece, err := receive(fd, len(peeked), 0)
	if err != nil {
		return nil, "", err
	}
	if !bytes.Equal(peeked, piece) {
		return piece, "other bytes than peeked", nil
	}
	return piece, "", nil
}

// readWaitAll asks for the whole of a body in one call.
func readWaitAll(fd, limit, need int) ([]byte, string, error) {
	if need == 0 {
		return readPlain(fd, limit, need)
	}
	piece, err := receive(fd, need, unix.MSG_WAITALL)
	if err != nil {
		return nil, "", err
	}
	if len(piece) < need {
		return piece, "MSG_WAITALL returned early", nil
	}
	return piece, "", nil
}

// readFIONREAD reads as much as there is, and believes FIONREAD.
func readFIONREAD(fd, limit, _ int) ([]byte, string, error) {
	if _, err := readable(fd, -1); err != nil {
		return nil, "", err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return nil, "", os.NewSyscallError("ioctl", err)
	}
	if n > 0 {
		piece, err := receive(fd, min(n, limit), 0)
		return piece, "", err
	}
	piece, err := receive(fd, limit, 0)
	if err != nil {
		return nil, "", err
	}
	return piece, "FIONREAD is 0 where poll says readable", nil
}

// readLowWater waits for the whole of a body by SO_RCVLOWAT, as far as a receive
// buffer can hold it.
func readLowWater(fd, limit, need int) ([]byte, string, error) {
	const most = 16 << 10
	if need == 0 || need > most {
		return readPlain(fd, limit, need)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, need); err != nil {
		return nil, "", os.NewSyscallError("setsockopt", err)
	}
	piece, err := receive(fd, limit, 0)
	if resetErr := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1); err == nil && resetErr != nil {
		err = os.NewSyscallError("setsockopt", resetErr)
	}
	if err != nil {
		return nil, "", err
	}
	if len(piece) < need {
		return piece, "SO_RCVLOWAT returned early", nil
	}
	return piece, "", nil
}

func readVector(fd, limit, _ int) ([]byte, string, error) {
	buffer := make([]byte, limit)
	third := limit / 3
	parts := [][]byte{buffer[:third], buffer[third : 2*third], buffer[2*third:]}
	n, err := retryN(func() (int, error) { return unix.Readv(fd, parts) })
	if err != nil {
		return nil, "", os.NewSyscallError("readv", err)
	}
	if n == 0 {
		return nil, "", io.EOF
	}
	return buffer[:n], "", nil
}

// readSplice moves a body into a pipe without looking at it. If there is
// something to read and splice does not see it, it reads.
func readSplice(fd, limit, need int) ([]byte, string, error) {
	if need == 0 {
		return readPlain(fd, limit, need)
	}
	if _, err := readable(fd, -1); err != nil {
		return nil, "", err
	}
	piece, err := spliceFrom(fd, limit)
	if errors.Is(err, unix.EAGAIN) {
		piece, err = receive(fd, limit, 0)
		return piece, "splice sees nothing where poll says readable", err
	}
	return piece, "", err
}

// spliceFrom reads what there is by way of a pipe; EAGAIN if there is nothing.
func spliceFrom(fd, limit int) ([]byte, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	// SPLICE_F_NONBLOCK is about the pipe alone.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	n, err := unix.Splice(fd, nil, pipe[1], nil, min(limit, 32<<10), unix.SPLICE_F_NONBLOCK)
	if blockErr := unix.SetNonblock(fd, false); blockErr != nil {
		return nil, os.NewSyscallError("fcntl", blockErr)
	}
	if err != nil {
		return nil, os.NewSyscallError("splice", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	buffer := make([]byte, n)
	if _, err := io.ReadFull(blockingReader(pipe[0]), buffer); err != nil {
		return nil, fmt.Errorf("read the pipe: %w", err)
	}
	return buffer, nil
}

// blockingReader reads a descriptor that Go's runtime knows nothing of.
type blockingReader int

func (r blockingReader) Read(p []byte) (int, error) {
	n, err := blockingPump{int(r)}.read(p)
	if err == nil && n == 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}
