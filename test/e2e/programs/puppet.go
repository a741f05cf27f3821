// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// PuppetSpec describes a program that does nothing by itself: the test opens, fills and ends its connections, and so decides what
// happens before what, however slow the machine is.
type PuppetSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
}

// PuppetReady is the puppet's first answer.
type PuppetReady struct{ Address string }

// What a puppet can be told to do.
const (
	PuppetDial      = "dial"
	PuppetSend      = "send"
	PuppetHalfClose = "half-close"
	PuppetClose     = "close"
	PuppetReset     = "reset"
	PuppetLook      = "look"
	// PuppetCork has the kernel keep what does not fill a segment (TCP_CORK), for 200 ms or until
	// PuppetUncork.
	PuppetCork   = "cork"
	PuppetUncork = "uncork"
	// PuppetSegment asks how many bytes a segment has.
	PuppetSegment = "segment"
	// PuppetIgnore reads nothing of a connection until PuppetHear.
	PuppetIgnore = "ignore"
	PuppetHear   = "hear"
)

// Pull is one command.
type Pull struct {
	Do string
	// Address to dial.
	Address string `json:",omitempty"`
	// Conn is the connection meant, by the number that News gives it.
	Conn int `json:",omitempty"`
	// Bytes to send in one write.
	Bytes []byte `json:",omitempty"`
	// Flags of the send; with any, the answer says how it failed.
	Flags int `json:",omitempty"`
	// Patience is how long a look waits for something new.
	Patience time.Duration `json:",omitempty"`
}

// Pulled answers a command.
type Pulled struct {
	// Conn is the number of the connection that was dialled.
	Conn int
	// News of a look tells what has come since the look before. Other commands take none: what comes while they run is not lost on who waits
	// for it next.
	News []News
	// Segment is how many bytes a segment holds that the connection sends.
	Segment int `json:",omitempty"`
	// Errno of a send with flags; 0: it took something.
	Errno syscall.Errno `json:",omitempty"`
	// Error of a dial. Writing to a connection that the other side has ended is no error: News tells of the end.
	Error string
}

// News is what one connection has received.
type News struct {
	Conn  int
	Bytes []byte
	// Ended tells that nothing more will come: "eof", or "reset" after any other error.
	Ended string
}

// pullPatience bounds a dial, and a write that nobody reads.
const pullPatience = 30 * time.Second

type puppet struct {
	mu    sync.Mutex // guards what follows
	conns []*net.TCPConn
	news  map[int]*News
	ears  []ear

	// stir holds a token while there is something new.
	stir chan struct{}
}

// ear holds a token for each turn of a connection's reader: to rest, and to go on.
type ear struct{ rests, goesOn chan struct{} }

func runPuppet(s *stdio) error {
	var spec PuppetSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	p := &puppet{news: map[int]*News{}, stir: make(chan struct{}, 1)}
	defer p.closeAll()
	listener, err := s.listen(spec.Address, func(a string) any { return PuppetReady{Address: a} }, func(c net.Conn) { p.adopt(c.(*net.TCPConn)) })
	if err != nil {
		return err
	}
	defer listener.Close()
	for {
		line, err := s.command()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		var pull Pull
		if err := json.Unmarshal([]byte(line), &pull); err != nil {
			return fmt.Errorf("decode a command: %w", err)
		}
		if err := s.answer(p.do(pull)); err != nil {
			return err
		}
	}
}

// adopt gives a connection its number and listens to it.
func (p *puppet) adopt(conn *net.TCPConn) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
	id := len(p.conns) // 0 is none
	e := ear{make(chan struct{}, 1), make(chan struct{}, 1)}
	p.ears = append(p.ears, e)
	go p.hear(id, conn, e)
	return id
}

func (p *puppet) hear(id int, conn *net.TCPConn, e ear) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			e.rests <- struct{}{}
			<-e.goesOn
			continue
		}
		p.note(id, buffer[:n], err)
		if err != nil {
			return
		}
	}
}

func (p *puppet) note(id int, b []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.news[id] == nil {
		p.news[id] = &News{Conn: id}
	}
	n := p.news[id]
	n.Bytes = append(n.Bytes, b...)
	switch {
	case errors.Is(err, io.EOF):
		n.Ended = "eof"
	case err != nil:
		n.Ended = "reset"
	}
	select {
	case p.stir <- struct{}{}:
	default:
	}
}

func (p *puppet) do(pull Pull) Pulled {
	var done Pulled
	switch conn := p.conn(pull.Conn); {
	case pull.Do == PuppetLook:
		p.await(pull.Patience)
		done.News = p.take()
	case pull.Do == PuppetDial:
		conn, err := net.DialTimeout("tcp", pull.Address, pullPatience)
		if err != nil {
			return Pulled{Error: err.Error()}
		}
		done.Conn = p.adopt(conn.(*net.TCPConn))
	case conn == nil:
		return Pulled{Error: fmt.Sprintf("%s: there is no connection %d", pull.Do, pull.Conn)}
	case pull.Do == PuppetSend && pull.Flags != 0:
		control(conn, func(fd int) {
			_, err := unix.SendmsgN(fd, pull.Bytes, nil, nil, pull.Flags)
			_ = errors.As(err, &done.Errno)
		})
	case pull.Do == PuppetSend:
		_ = conn.SetWriteDeadline(time.Now().Add(pullPatience))
		_, _ = conn.Write(pull.Bytes)
	case pull.Do == PuppetIgnore:
		// A read that has begun ends as well.
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-p.ear(pull.Conn).rests
	case pull.Do == PuppetHear:
		_ = conn.SetReadDeadline(time.Time{})
		p.ear(pull.Conn).goesOn <- struct{}{}
	case pull.Do == PuppetCork:
		control(conn, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
	case pull.Do == PuppetUncork:
		control(conn, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 0) })
	case pull.Do == PuppetSegment:
		control(conn, func(fd int) {
			if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				done.Segment = int(info.Snd_mss)
			}
		})
	case pull.Do == PuppetHalfClose:
		_ = conn.CloseWrite()
	case pull.Do == PuppetReset:
		// Linger 0 turns the close into a reset.
		_ = conn.SetLinger(0)
		_ = conn.Close()
	case pull.Do == PuppetClose:
		_ = conn.Close()
	default:
		return Pulled{Error: "unknown command " + pull.Do}
	}
	return done
}

// control does something with an open connection's descriptor.
func control(conn *net.TCPConn, f func(fd int)) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

func (p *puppet) conn(id int) *net.TCPConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id < 1 || id > len(p.conns) {
		return nil
	}
	return p.conns[id-1]
}

func (p *puppet) ear(id int) ear {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ears[id-1]
}

// await returns when there is something new, or after patience.
func (p *puppet) await(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.stir:
	case <-timer.C:
	}
}

func (p *puppet) take() []News {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []News
	for id, n := range p.news {
		taken = append(taken, *n)
		delete(p.news, id)
	}
	return taken
}

func (p *puppet) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}
