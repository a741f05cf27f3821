// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ReconnectSpec describes rounds in which a client disconnects its socket, and connects it again, while a response to it waits for a worker
// of the kernel. The worker's processor is kept for the client's thread, which answers as the server as well.
type ReconnectSpec struct {
	Clients ClientSpec
	Rounds  int
}

// ReconnectListener is the descriptor at which the endpoint listens.
const ReconnectListener = 3

// Reconnect plays the rounds.
func (c *Clients) Reconnect(spec ReconnectSpec) error {
	if err := unix.SetNonblock(ReconnectListener, true); err != nil {
		return err
	}
	failed := make(chan error)
	go func() {
		// Not unlocked: nobody else is to have this thread.
		runtime.LockOSThread()
		failed <- c.reconnectInTurn(spec.Rounds)
	}()
	return <-failed
}

func (c *Clients) reconnectInTurn(rounds int) error {
	if err := stayOn(0); err != nil {
		return err
	}
	s := &reconnectServer{}
	defer s.close()
	for range rounds {
		if err := c.reconnectOnce(s); err != nil {
			return err
		}
	}
	return nil
}

// reconnectOnce makes a request, answers it, and has the socket connected again before any worker runs.
func (c *Clients) reconnectOnce(s *reconnectServer) error {
	n, err := c.newcomer(-1)
	if err != nil {
		return err
	}
	defer n.close()
	request, body := n.request()
	response, _ := n.order.response(c.spec.Seed, n.id)
	n.count(Exchanges)
	if err := n.send(request, body); err != nil {
		return err
	}
	asked, err := s.asked(request, c.spec.Patience)
	if err != nil {
		return err
	}
	// From here on no worker runs on this processor, until the socket is connected again. Before, the request may have needed one.
	if err := schedule(unix.SCHED_FIFO, 1); err != nil {
		return err
	}
	if _, err = unix.Write(asked, response); err == nil {
		err = n.connectAgain()
	}
	refused := errors.Is(err, unix.ECONNABORTED)
	if refused {
		c.count("refused")
		err = nil
	}
	if err := errors.Join(err, schedule(unix.SCHED_NORMAL, 0)); err != nil {
		return err
	}
	if !refused {
		n.quietly()
	}
	return nil
}

// schedule is for this thread.
func schedule(policy, priority uint32) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}, 0)
}

// connectAgain may be refused (ECONNABORTED): then the socket has no connection, and what is read from it is that of the one before.
func (c *conn) connectAgain() error {
	if err := c.disconnect(); err != nil {
		return err
	}
	c.count("disconnected")
	return connect(c.fd, &c.to)
}

// quietly waits for what ought not to come: nothing was asked for.
func (c *conn) quietly() {
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	const worker = 200 * time.Millisecond
	for end := time.Now().Add(worker); time.Now().Before(end); {
		_, _ = unix.Poll(fds, int(time.Until(end).Milliseconds())+1)
		b := make([]byte, shownBytes)
		if n, _, err := unix.Recvfrom(c.fd, b, unix.MSG_DONTWAIT); err == nil && n > 0 {
			c.violation("the response of the connection before", Violation{}, b[:n])
			return
		}
	}
}

// reconnectServer is the endpoint, without a thread of its own.
type reconnectServer struct{ fds []int }

func (s *reconnectServer) close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
}

// asked waits for the request, and returns the connection that it has come on.
func (s *reconnectServer) asked(request []byte, patience time.Duration) (fd int, err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if fd, _, err := unix.Accept4(ReconnectListener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
			s.fds = append(s.fds, fd)
		}
		for _, fd := range s.fds {
			b := make([]byte, 2*len(request))
			n, err := unix.Read(fd, b)
			if err != nil || n <= 0 {
				continue
			}
			if !bytes.Equal(b[:n], request) {
				return 0, fmt.Errorf("the endpoint got %q, want %q", b[:n], request)
			}
			return fd, nil
		}
	}
	return 0, errors.New("the request does not come to the endpoint")
}
