// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Sight is what a look at a socket finds.
type Sight uint8

const (
	// Quiet: open, and nothing to read. Readiness may have been false: between the arrival of a segment and the verdict of a
	// kernel program on it, a socket looks readable.
	Quiet Sight = iota
	// Readable: there are bytes.
	Readable
	// Ended: the other side has closed.
	Ended
	// Failed: the connection has ended in an error. The look has taken that from the socket: the next one finds Ended.
	Failed
)

// Look finds what there is to read, and leaves it there.
func Look(fd int) Sight {
	var b [1]byte
	n, err := peekNow(fd, b[:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return Quiet
	case err != nil:
		return Failed
	case n == 0:
		return Ended
	}
	return Readable
}

// HasEnded reports whether the other side has closed its sending side, whatever is still to be read.
func HasEnded(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
}
