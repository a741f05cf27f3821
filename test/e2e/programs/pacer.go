// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// PacerSpec describes a server that takes its time, and keeps account of its connections:
//
//	/drip?n=&ms=  n bytes with so many milliseconds between them
//	/slow?ms=     answers after that time
//	/hang         never answers
//	/read         answers when the request's body has been read
//	/switch       switches to the protocol that the request asks for: an echo
//	/…            answers at once
type PacerSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
}

// PacerConn is a connection as the server sees it.
type PacerConn struct {
	// Requests that have begun.
	Requests int
	// Opened and Ended are counted from the start of the server; Ended is 0 while the connection is open.
	Opened, Ended time.Duration
	// Busy: a request is in progress.
	Busy bool
}

// PacerReport answers the specification, and each command.
type PacerReport struct {
	Address string
	Conns   []PacerConn
}

type pacer struct {
	began time.Time

	mu    sync.Mutex // guards what follows
	conns []*PacerConn
	index map[net.Conn]*PacerConn
}

// pacedConn is the context's key of a connection.
type pacedConn struct{}

func runPacer(s *stdio) error {
	var spec PacerSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	l, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p := &pacer{began: time.Now(), index: map[net.Conn]*PacerConn{}}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ConnState: p.note, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, pacedConn{}, c)
	}}
	go func() { _ = server.Serve(l) }() // ends with the process
	report := func() any { return p.report(l.Addr().String()) }
	if err := s.answer(report()); err != nil {
		return err
	}
	return s.report(report)
}

func (p *pacer) report(address string) PacerReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := PacerReport{Address: address}
	for _, c := range p.conns {
		r.Conns = append(r.Conns, *c)
	}
	return r
}

func (p *pacer) note(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.index[c]
	switch state {
	case http.StateNew:
		known = &PacerConn{Opened: time.Since(p.began)}
		p.index[c] = known
		p.conns = append(p.conns, known)
	case http.StateActive:
		known.Busy = true
		known.Requests++
	case http.StateIdle:
		known.Busy = false
	case http.StateClosed:
		known.Busy, known.Ended = false, time.Since(p.began)
	}
}

func (p *pacer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := func(name string) int {
		n, _ := strconv.Atoi(r.URL.Query().Get(name)) // a test writes it
		return n
	}
	pause := time.Duration(number("ms")) * time.Millisecond
	switch r.URL.Path {
	case "/drip":
		w.Header().Set("Content-Length", strconv.Itoa(number("n")))
		for range number("n") {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(pause)
		}
	case "/hang":
		<-r.Context().Done()
	case "/read":
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			fmt.Fprintf(w, "read %d", n)
		}
	case "/switch":
		p.echo(w, r)
	default:
		time.Sleep(pause)
		_, _ = io.WriteString(w, "ok") // the client may have gone
	}
}

func (p *pacer) echo(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	_, _ = io.Copy(conn, buffered) // it ends with the client
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.index[r.Context().Value(pacedConn{}).(net.Conn)]
	known.Busy, known.Ended = false, time.Since(p.began)
}
