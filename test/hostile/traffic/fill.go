// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FillSpec describes rounds in which a client that does not block fills the buffer of the daemon's connection to an endpoint that does not
// read, to the last byte that seems to fit: the kernel needs room beside the bytes, and takes a part.
type FillSpec struct {
	Clients ClientSpec
	Rounds  int
	// PID is the daemon, Port the endpoint's.
	PID  int
	Port uint16
}

// Filled counts sends of exactly what seemed to fit.
const Filled = "filled"

// Fill plays the rounds.
func (c *Clients) Fill(spec FillSpec) error {
	for range spec.Rounds {
		if err := c.excuse(c.fillOnce(spec)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Clients) fillOnce(spec FillSpec) error {
	n, err := c.newcomer(c.spec.Body[1])
	if err != nil {
		return err
	}
	defer n.close()
	n.count(Exchanges)
	request, body := n.request()
	const step = 256 << 10
	if err := n.sendAll(request[:body+step], 0); err != nil {
		return err
	}
	rest, err := n.fill(spec, request[body+step:], step)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- sendNonblocking(n, rest, 0) }()
	n.receive()
	if err := <-sent; err != nil {
		n.count("not sent: " + err.Error())
	}
	return nil
}

// fill sends until nothing more is taken, the last piece as large as what seems to fit, and returns what is left.
func (c *conn) fill(spec FillSpec, b []byte, step int) ([]byte, error) {
	g := &grip{faults: -1}
	defer g.drop()
	if err := g.find(spec.PID, spec.Port); err != nil {
		return b, err
	}
	for len(b) > step {
		room, err := settledRoom(g.fds)
		if err != nil {
			return b, err
		}
		size := min(step, room)
		if size <= 0 {
			return b, nil
		}
		n, err := unix.SendmsgN(c.fd, b[:size], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return b, err
		}
		b = b[max(n, 0):]
		if size == room {
			c.count(Filled)
			if n != size {
				c.count("sends cut short")
			}
			return b, nil
		}
	}
	return b, nil
}

// settledRoom is what the fullest of some sockets has room for, when that has not changed for a moment.
func settledRoom(fds []int) (room int, err error) {
	const looks = 5
	for same := 0; same < looks; time.Sleep(2 * time.Millisecond) {
		now := 1 << 30
		for _, fd := range fds {
			m, err := socketMemory(fd)
			if err != nil {
				return 0, err
			}
			now = min(now, int(m.SendLimit)-int(m.SendQueue))
		}
		same++
		if now != room {
			same, room = 0, now
		}
	}
	return room, nil
}

// memory is what SO_MEMINFO gives (SK_MEMINFO_* of linux/sock_diag.h), in bytes.
type memory struct {
	ReceiveQueue, ReceiveLimit, WriteMemory, SendLimit, Reserved, SendQueue, Options, Backlog, Drops uint32
}

func socketMemory(fd int) (m memory, err error) {
	size := uint32(unsafe.Sizeof(m))
	_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&size)), 0)
	if failed != 0 {
		return m, failed
	}
	return m, nil
}
