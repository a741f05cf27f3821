// SPDX-License-Identifier: Apache-2.0

// Package tunnel moves the bytes of connections without HTTP for package slowpath.
package tunnel

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
)

// Config is what a tunnel needs.
type Config struct {
	Client, Endpoint net.Conn
	// First has been read from the client already.
	First []byte
	// Idle is after what time without a byte both connections are reset; 0: never.
	Idle time.Duration
	// Up and Down are the tickets of the two directions.
	Up, Down *shares.Ticket
	Crashes  *crash.Log
	// Moved is called with the bytes that have just been read from the client, or from the endpoint, and written to the other side, by two goroutines.
	Moved func(consumed, answered uint64)
}

// tunnel is one Run call.
type tunnel struct {
	*Config
	// idle interrupts both sides when nothing has moved; nil: never.
	idle *time.Timer
}

// Run moves bytes both ways until both directions have ended, or one has failed, and closes both connections. consumed have been read from the client, with
// First, and answered from the endpoint.
func Run(config *Config) (consumed, answered uint64, err error) {
	t := &tunnel{Config: config}
	if t.Idle > 0 {
		t.idle = time.AfterFunc(t.Idle, func() { conns.Abort(t.Client); conns.Abort(t.Endpoint) })
		defer t.idle.Stop()
	}
	return t.run()
}

func (t *tunnel) run() (consumed, answered uint64, err error) {
	type direction struct {
		bytes uint64
		err   error
	}
	up, over := make(chan direction, 1), false
	defer func() {
		if !over { // a panic: the other direction ends, too
			conns.Abort(t.Endpoint)
			conns.Abort(t.Client)
			<-up
		}
	}()
	go func() {
		defer t.Crashes.Recover("a connection's direction", func() {
			conns.Abort(t.Endpoint)
			conns.Abort(t.Client)
			up <- direction{0, crash.Err}
		})
		_, err := t.Endpoint.Write(t.First)
		if err != nil {
			conns.Abort(t.Endpoint)
			conns.Abort(t.Client)
			up <- direction{0, err}
			return
		}
		t.Moved(uint64(len(t.First)), 0)
		n, err := t.pump(t.Endpoint, t.Client, t.Up, func(n uint64) { t.Moved(n, 0) })
		up <- direction{n + uint64(len(t.First)), err}
	}()
	answered, err = t.pump(t.Client, t.Endpoint, t.Down, func(n uint64) { t.Moved(0, n) })
	request := <-up
	over = true
	_ = t.Endpoint.Close()
	_ = t.Client.Close()
	return request.bytes, answered, errors.Join(request.err, err)
}

// pump moves bytes until their end, which it passes on. A failure resets both connections: it must not look like an end.
func (t *tunnel) pump(to, from net.Conn, ticket *shares.Ticket, count func(uint64)) (uint64, error) {
	n, err := func() (uint64, error) {
		defer ticket.Yield()
		return t.copy(to, conns.Paced{Reader: from, Ticket: ticket}, count)
	}()
	if err == nil {
		err = conns.CloseWrite(to)
	}
	if err != nil {
		conns.Abort(to)
		conns.Abort(from)
	}
	return n, err
}

func (t *tunnel) copy(to io.Writer, from io.Reader, count func(uint64)) (moved uint64, err error) {
	buffer := buffers.Copy()
	defer buffers.PutCopy(buffer)
	for {
		n, err := from.Read(*buffer)
		if n > 0 && t.idle != nil {
			t.idle.Reset(t.Idle)
		}
		written, failed := to.Write((*buffer)[:n])
		moved += uint64(written)
		count(uint64(written))
		switch {
		case failed != nil:
			return moved, failed
		case errors.Is(err, io.EOF):
			return moved, nil
		case err != nil:
			return moved, err
		}
	}
}
