// SPDX-License-Identifier: Apache-2.0

// Package chain is a small service of a benchmark. It reads a whole request, asks the next service of a chain if there is one, and passes
// the answer back; the last one answers itself. Connections are kept in both directions: a connection from a client has one of
// its own to the next service, so that a chain costs what its hops cost and nobody waits in a pool.
package chain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/xlb-project/xlb/bench/accept"
)

const (
	// HerePath is answered by a service itself, whatever follows it.
	HerePath = "/here"
	// patience bounds the connect to the next service.
	patience = 10 * time.Second
	// readBuffer holds a head, in bytes.
	readBuffer = 16 << 10
)

// Options of a service.
type Options struct {
	// Listen is the first of Count addresses in a row, which share a port.
	Listen netip.AddrPort
	Count  int
	// Next is asked for every answer; the zero value stands for the end of the chain.
	Next netip.AddrPort
	// Body is the size in bytes of what the end of the chain answers.
	Body int
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if !o.Listen.IsValid() || o.Count < 1 || o.Body < 0 {
		return fmt.Errorf("%d addresses from %s on, bodies of %d bytes: an address is needed, at least one, and no negative size", o.Count, o.Listen, o.Body)
	}
	return nil
}

// Addresses are n addresses in a row, which share a port.
func Addresses(first netip.AddrPort, n int) []netip.AddrPort {
	list := make([]netip.AddrPort, n)
	addr := first.Addr()
	for i := range list {
		list[i] = netip.AddrPortFrom(addr, first.Port())
		addr = addr.Next()
	}
	return list
}

// Serve answers requests until ctx ends.
func Serve(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	var listeners []net.Listener
	closeAll := func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	for _, address := range Addresses(o.Listen, o.Count) {
		l, err := net.Listen("tcp", address.String())
		if err != nil {
			closeAll()
			return err
		}
		listeners = append(listeners, l)
	}
	defer context.AfterFunc(ctx, closeAll)()
	answer := response("200 OK", bytes.Repeat([]byte("x"), o.Body))
	var accepting sync.WaitGroup
	errs := make([]error, len(listeners))
	for i, l := range listeners {
		accepting.Go(func() {
			errs[i] = accept.Each(l, func(conn net.Conn) error {
				s := server{conn: conn, r: bufio.NewReaderSize(conn, readBuffer), next: o.Next, answer: answer}
				defer s.hangUp()
				return s.serve()
			})
		})
	}
	accepting.Wait()
	return errors.Join(errs...)
}

// server is one connection from a client; only its own goroutine uses it.
type server struct {
	conn   net.Conn
	r      *bufio.Reader
	answer []byte
	next   netip.AddrPort
	// up is the connection to the next service, nil before the first request.
	up  net.Conn
	upR *bufio.Reader
}

func (s *server) hangUp() {
	if s.up != nil {
		s.up.Close()
		s.up = nil
	}
}

func (s *server) serve() error {
	for {
		first, length, err := ReadHead(s.r)
		if err != nil {
			return err
		}
		isHere := bytes.Contains(first, []byte(" "+HerePath+" "))
		if _, err := s.r.Discard(length); err != nil {
			return err
		}
		answer := s.answer
		if s.next.IsValid() && !isHere {
			answer = s.pass()
		}
		if _, err := s.conn.Write(answer); err != nil {
			return err
		}
	}
}

// pass asks the next service and returns the answer to the client. A kept connection may have ended since its last request: then it asks
// once more on another.
func (s *server) pass() []byte {
	for range 2 {
		fresh := s.up == nil
		body, err := s.ask()
		if err == nil {
			return response("200 OK", body)
		}
		s.hangUp()
		if fresh {
			break
		}
	}
	return response("502 Bad Gateway", nil)
}

func (s *server) ask() ([]byte, error) {
	if s.up == nil {
		up, err := net.DialTimeout("tcp", s.next.String(), patience)
		if err != nil {
			return nil, err
		}
		s.up, s.upR = up, bufio.NewReaderSize(up, readBuffer)
	}
	if _, err := io.WriteString(s.up, "GET / HTTP/1.1\r\nHost: chain\r\n\r\n"); err != nil {
		return nil, err
	}
	first, length, err := ReadHead(s.upR)
	if err != nil {
		return nil, err
	}
	isFine := bytes.HasPrefix(first, []byte("HTTP/1.1 200"))
	body := make([]byte, length)
	if _, err := io.ReadFull(s.upR, body); err != nil {
		return nil, err
	}
	if !isFine {
		return nil, errors.New("the next service answers with an error")
	}
	return body, nil
}

func response(status string, body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// ReadHead reads the head of a message and returns its first line and the length of its body, which must be told by Content-Length
// or be none. The line is valid until the next read.
func ReadHead(r *bufio.Reader) (first []byte, length int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, 0, err
	}
	first = bytes.Clone(line)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return first, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return nil, 0, fmt.Errorf("content-length %q: want a number", value)
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			return nil, 0, fmt.Errorf("transfer-encoding %q: only bodies of a known length are read", value)
		}
	}
}
