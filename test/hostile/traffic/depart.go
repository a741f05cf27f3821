// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// DepartSpec describes rounds in which an endpoint answers before it has read the request, and closes the connection, while its answer waits for a
// worker of the kernel. The worker's processor is kept for the client's thread, which answers as the server as well.
type DepartSpec struct {
	Clients ClientSpec
	Rounds  int
	// Cut has the endpoint reset the connection in the midst of its answer.
	Cut bool
}

// Departed counts the endpoint's closes.
const Departed = "departed"

// Depart plays the rounds.
func (c *Clients) Depart(spec DepartSpec) error {
	if err := unix.SetNonblock(ReconnectListener, true); err != nil {
		return err
	}
	failed := make(chan error)
	go func() {
		// Not unlocked: nobody else is to have this thread.
		runtime.LockOSThread()
		failed <- c.departInTurn(spec)
	}()
	return <-failed
}

func (c *Clients) departInTurn(spec DepartSpec) error {
	if err := stayOn(0); err != nil {
		return err
	}
	for range spec.Rounds {
		if err := c.departOnce(spec.Cut); err != nil {
			return err
		}
	}
	return nil
}

// departOnce sends the head of a request, answers it, closes the endpoint's connection, and looks whether that shows before the answer does.
func (c *Clients) departOnce(cut bool) error {
	s := &reconnectServer{}
	defer s.close()
	n, err := c.newcomer(overtakenBody)
	if err != nil {
		return err
	}
	defer n.close()
	request, body := n.request()
	response, head := n.order.response(c.spec.Seed, n.id)
	n.count(Exchanges)
	if err := n.sendAll(request[:body], 0); err != nil {
		return err
	}
	asked, err := s.asked(request[:body], c.spec.Patience)
	if err != nil {
		return err
	}
	if cut {
		response = response[:head+(len(response)-head)/2]
		_ = unix.SetsockoptLinger(asked, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	// From here on no worker runs on this processor.
	if err := schedule(unix.SCHED_NORMAL, 0); err != nil {
		return err
	}
	_, err = unix.Write(asked, response)
	s.close()
	s.fds = nil
	n.count(Departed)
	early := n.endWithin(workerHeld)
	if err := errors.Join(err, schedule(unix.SCHED_NORMAL, 0)); err != nil {
		return err
	}
	if early != nil {
		n.broken("in the head", early, "")
		return nil
	}
	n.receive()
	return nil
}

// workerHeld is for how long a worker is kept from running.
const workerHeld = 100 * time.Millisecond

// endWithin looks for the connection's end, or an error of its, until there is something to read; nil: there is neither. It never sleeps.
func (c *conn) endWithin(d time.Duration) error {
	var b [1]byte
	for end := time.Now().Add(d); time.Now().Before(end); {
		switch n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); {
		case err == nil && n == 0:
			return io.EOF
		case err == nil:
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return nil
}
