// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kinds that do not make one request and wait for its response.
const (
	// KindHalf closes its sending side behind the request.
	KindHalf = "half"
	// KindReset resets the connection in the request, KindAbandon closes it in the response.
	KindReset   = "reset"
	KindAbandon = "abandon"
	// KindUnspec disconnects in the request, connects the same socket once more, and asks again.
	KindUnspec = "unspec"
	// KindThreads has several threads make a request each, at once on one socket.
	KindThreads = "threads"
	// KindHasty makes the next request before it has read the response.
	KindHasty = "hasty"
)

func init() {
	for kind, leave := range map[string]func(c *conn, sent <-chan error) bool{
		KindHalf: halve, KindReset: leaveInRequest, KindAbandon: abandon, KindUnspec: reconnect, KindThreads: pipeline, KindHasty: pipeline,
	} {
		leaving[kind] = leave
	}
	senders[KindHalf], senders[KindAbandon] = sendPieces, sendWhole
	senders[KindReset], senders[KindUnspec] = sendPart, sendPart
	senders[KindThreads], senders[KindHasty] = sendThreads, sendHasty
}

// sendPart sends as much as the order says.
func sendPart(c *conn, request []byte, body int) error {
	if c.order.At%3 == 0 {
		// The head and no more: the request is under way.
		return c.sendAll(request[:body], 0)
	}
	return c.sendAll(request[:1+(len(request)-1)*c.order.At/1000], 0)
}

func halve(c *conn, sent <-chan error) bool {
	if err := <-sent; err == nil {
		_ = unix.Shutdown(c.fd, unix.SHUT_WR)
	}
	c.receive()
	return false
}

func leaveInRequest(c *conn, sent <-chan error) bool {
	<-sent
	c.count("left in the request")
	if c.order.At%2 == 0 {
		c.reset()
	}
	return false
}

// abandon reads a part of the response.
func abandon(c *conn, sent <-chan error) bool {
	if c.order.At > 100 {
		part := make([]byte, 1+c.order.At)
		// However it ends: what counts is what came.
		n, _ := c.reader.Read(part)
		if !beginsAsResponse(part[:n]) {
			c.violation("bytes that are no response", Violation{}, part[:n])
		}
	}
	if c.order.At%2 == 0 {
		c.reset()
	}
	c.count("left in the response")
	// The request may be too large to be taken without anybody who reads.
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	<-sent
	return false
}

// reconnect gives the socket another connection: nothing of the one before may come on it.
func reconnect(c *conn, sent <-chan error) bool {
	<-sent
	c.count("disconnected")
	if err := c.disconnect(); err != nil {
		c.count("not to be disconnected: " + err.Error())
		return false
	}
	if err := connect(c.fd, &c.to); err != nil {
		c.count("not connected again: " + err.Error())
		return false
	}
	c.mu.Lock()
	c.conns++
	c.id = ID{Process: c.spec.Process, Conn: c.conns, Request: 1}
	c.mu.Unlock()
	c.listen()
	c.order.Kind, c.order.Act, c.order.Garbled = KindWhole, ActAnswers, false
	return c.exchange()
}

// disconnect leaves the socket without a connection (AF_UNSPEC).
func (c *conn) disconnect() error {
	unspecified := [16]byte{}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(c.fd), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified)))
	if errno != 0 {
		return errno
	}
	return nil
}

// threadsAtOnce is how many requests are made at once.
const threadsAtOnce = 4

// members are the exchanges that are made at once: small ones, so that each goes in one piece.
func (c *conn) members() []*conn {
	var all []*conn
	for i := range threadsAtOnce {
		m := *c
		m.id.Request += uint32(i)
		if i > 0 {
			m.count(Exchanges)
		}
		m.order.Body, m.order.BodyChunked, m.order.Reply = min(c.order.Body, 1500), false, min(c.order.Reply, 3000)
		if m.order.Act != ActEarly && m.order.Act != ActLate {
			m.order.Act = ActAnswers
		}
		all = append(all, &m)
	}
	return all
}

func sendThreads(c *conn, _ []byte, _ int) error {
	errs := make([]error, threadsAtOnce)
	var running sync.WaitGroup
	for i, m := range c.members() {
		request, _ := m.request()
		running.Go(func() { errs[i] = m.sendAll(request, 0) })
	}
	running.Wait()
	return errors.Join(errs...)
}

func sendHasty(c *conn, _ []byte, _ int) error {
	for _, m := range c.members() {
		request, _ := m.request()
		if err := m.sendAll(request, 0); err != nil {
			return err
		}
		c.pause()
	}
	return nil
}

// pipeline reads the responses of members: in order, if that is known.
func pipeline(c *conn, sent <-chan error) bool {
	members := c.members()
	// Counted once, when they were sent.
	c.add(Exchanges, -int64(len(members)-1))
	on := true
	for len(members) > 0 && on {
		var next *conn
		head, _ := c.reader.Peek(1)
		if len(head) > 0 {
			next = c.nextMember(members)
		}
		unknown := next == nil
		if unknown {
			next = members[0]
		}
		if c.order.Kind == KindHasty && next != members[0] {
			next.violation("a response that came too early", Violation{}, nil)
		}
		// Whose a balancer's own answer is shows in the order alone.
		on = next.receive() && (!unknown || c.order.Kind != KindThreads)
		members = slices.DeleteFunc(members, func(m *conn) bool { return m == next })
	}
	<-sent
	c.id.Request += threadsAtOnce - 1
	if !on {
		c.add("unanswered behind another", int64(len(members)))
		return false
	}
	return c.quiet()
}

// nextMember is whose response begins with what lies there.
func (c *conn) nextMember(members []*conn) *conn {
	// A head of ours fits; what is shorter comes whole.
	for size := 1; size < 1<<10; size = c.reader.Buffered() + 1 {
		lies, err := c.reader.Peek(min(c.reader.Buffered(), 1<<10))
		if err != nil {
			return nil
		}
		text, _, whole := strings.Cut(string(lies), "\r\n\r\n")
		for _, m := range members {
			if strings.Contains(text, idField+": "+m.id.String()+"\r\n") {
				return m
			}
		}
		if whole {
			return nil
		}
		if _, err := c.reader.Peek(size + 1); err != nil {
			return nil
		}
	}
	return nil
}
