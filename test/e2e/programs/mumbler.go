// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// MumblerSpec describes a client with one connection, on which it asks in one of two ways when it
// is told to: "plain", or "urgent", with the last byte of the request's body as urgent data, which
// the endpoint does not read in its place.
type MumblerSpec struct{ Address string }

// Mumbled is the answer to each command.
type Mumbled struct {
	Status int
	Body   string
	// Client is the client's address.
	Client string
	// Error is set in place of all that.
	Error string
}

const (
	mumblePlain  = "GET / HTTP/1.1\r\nHost: e2e.test\r\n\r\n"
	mumbleUrgent = "POST / HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 5\r\n\r\nhello"
)

// mumblePatience bounds the wait for an answer.
const mumblePatience = 30 * time.Second

func runMumbler(s *stdio) error {
	var spec MumblerSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	conn, err := net.Dial("tcp", spec.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		how, err := s.command()
		if err != nil {
			return nil
		}
		if err := s.answer(mumble(conn.(*net.TCPConn), in, how == "urgent")); err != nil {
			return err
		}
	}
}

func mumble(conn *net.TCPConn, in *bufio.Reader, urgent bool) Mumbled {
	m := Mumbled{Client: conn.LocalAddr().String()}
	if err := m.exchange(conn, in, urgent); err != nil {
		m.Error = err.Error()
	}
	return m
}

func (m *Mumbled) exchange(conn *net.TCPConn, in *bufio.Reader, urgent bool) error {
	if err := conn.SetDeadline(time.Now().Add(mumblePatience)); err != nil {
		return err
	}
	if err := mumbleSend(conn, urgent); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	m.Status, m.Body = response.StatusCode, string(body)
	return err
}

func mumbleSend(conn *net.TCPConn, urgent bool) error {
	message, flags := mumblePlain, 0
	if urgent {
		message, flags = mumbleUrgent, unix.MSG_OOB
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent int
	var sendErr error
	if err := raw.Control(func(fd uintptr) {
		sent, sendErr = unix.SendmsgN(int(fd), []byte(message), nil, nil, flags)
	}); err != nil {
		return err
	}
	if sendErr == nil && sent < len(message) {
		sendErr = fmt.Errorf("%d of %d bytes were taken", sent, len(message))
	}
	return sendErr
}
