// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

// What a client asks of a server: its bytes back; so many bytes; so many when the client has ended its half; an end; a reset.
const (
	askEcho = iota
	askBytes
	askAfterEnd
	askEnd
	askReset
	asks
)

const (
	// talkPatience is how long a step of a connection may take: interfaces are away for less than a second, and what is sent again comes after twice that.
	talkPatience = 40 * time.Second
	// greeting is what a server says first: the connection was accepted.
	greeting = 'G'
)

// lifeBytes is what a connection's bytes are made of, from a place on.
func lifeBytes(n int, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)*31 ^ salt
	}
	return b
}

// keepAlive has TCP ask an end that is silent, since resets may be lost with an interface.
func keepAlive(c net.Conn) {
	_ = c.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 30})
}

// serve does what clients ask.
func (v *village) serve(c net.Conn) {
	defer c.Close()
	keepAlive(c)
	if _, err := c.Write([]byte{greeting}); err != nil {
		return
	}
	for {
		var head [6]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(head[1:]))
		switch head[0] {
		case askEcho:
			if _, err := io.CopyN(c, c, int64(n)); err != nil {
				return
			}
		case askBytes, askAfterEnd:
			if head[0] == askAfterEnd {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					return
				}
			}
			if _, err := c.Write(lifeBytes(n, head[5])); err != nil || head[0] == askAfterEnd {
				return
			}
		case askReset:
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		default:
			return
		}
	}
}

// talk begins a connection, which goes on by itself.
func (v *village) talk() {
	address, port := v.target()
	seed, long := v.Uint64(), v.IntN(6) == 0
	v.talks.Go(func() {
		t := &talk{Rand: rand.New(rand.NewPCG(seed, 1)), v: v, address: address, port: port, long: long}
		t.run()
	})
}

// talk is one connection of a client.
type talk struct {
	*rand.Rand
	v       *village
	address string
	port    int
	long    bool
	c       net.Conn
}

func (t *talk) run() {
	v := t.v
	closed, away, fine := v.closed.Load(), v.away.Load(), v.isOpen.Load() && !v.isAway.Load()
	if !t.dial() {
		return
	}
	defer t.c.Close()
	v.started.Add(1)
	keepAlive(t.c)
	// In confirm mode it makes a difference who speaks first.
	first := t.IntN(2) == 0
	head, want, ask := t.question()
	if first {
		_, _ = t.c.Write(head)
	}
	_ = t.c.SetDeadline(time.Now().Add(talkPatience))
	var hello [1]byte
	if _, err := io.ReadFull(t.c, hello[:]); err != nil || hello[0] != greeting {
		// Nobody has accepted it yet: a listener that is closed ends it.
		if ask != askReset && fine && closed == v.closed.Load() && (away == v.away.Load() || !errors.Is(err, unix.EHOSTUNREACH)) {
			v.lose("%s: no greeting: %v", t, err)
		}
		return
	}
	for {
		if !first {
			_, _ = t.c.Write(head)
		}
		first = false
		if err := t.answer(ask, want); err != nil {
			v.lose("%s: question %d of %d bytes: %v", t, ask, len(want), err)
			return
		}
		if ask > askBytes || !t.goesOn() {
			break
		}
		head, want, ask = t.question()
	}
	if ask <= askBytes {
		t.leave()
	}
	v.ended.Add(1)
}

func (t *talk) String() string {
	if t.c == nil {
		return t.address
	}
	return fmt.Sprintf("%s to %s", t.c.LocalAddr(), t.address)
}

// dial connects; failures are nobody's loss while somebody was away.
func (t *talk) dial() bool {
	v := t.v
	closed, away, fine := v.closed.Load(), v.away.Load(), v.isOpen.Load() && !v.isAway.Load()
	err := heelstest.Enter(v.client.NS, func() (err error) {
		t.c, err = dialTalk(t.port, t.address)
		return err
	})
	if err == nil {
		return true
	}
	t.c = nil
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return false
	}
	if fine && closed == v.closed.Load() && away == v.away.Load() {
		v.lose("%s from port %d: %v", t, t.port, err)
	}
	return false
}

// goesOn says whether a connection has more to ask, and waits a little before it does.
func (t *talk) goesOn() bool {
	if !t.long {
		return t.IntN(3) > 0
	}
	select {
	case <-t.v.over:
		return false
	case <-time.After(time.Duration(t.IntN(300)) * time.Millisecond):
		return true
	}
}

// question is what a client sends, and what it is to get for it.
func (t *talk) question() (head, want []byte, ask int) {
	ask = t.IntN(asks)
	if t.long {
		ask = t.IntN(askBytes + 1)
		select {
		case <-t.v.over:
			ask = t.IntN(asks)
		default:
		}
	}
	n, salt := 1+t.IntN(1<<(1+t.IntN(16))), byte(t.IntN(256))
	head = append(binary.BigEndian.AppendUint32([]byte{byte(ask)}, uint32(n)), salt)
	switch ask {
	case askEcho:
		want = lifeBytes(n, salt)
		head = append(head, want...)
	case askBytes, askAfterEnd:
		want = lifeBytes(n, salt)
	}
	return head, want, ask
}

// answer reads what the server has to say.
func (t *talk) answer(ask int, want []byte) error {
	_ = t.c.SetDeadline(time.Now().Add(talkPatience))
	if ask == askAfterEnd {
		if err := t.c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(t.c, got); err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("other bytes came")
	}
	if ask < askAfterEnd {
		return nil
	}
	_, err := t.c.Read(make([]byte, 1))
	if ask == askReset && errors.Is(err, unix.ECONNRESET) || ask != askReset && errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("the end: %w", err)
}

// leave ends a connection in one of the ways that there are.
func (t *talk) leave() {
	c := t.c.(*net.TCPConn)
	switch t.IntN(3) {
	case 0:
		_ = c.SetLinger(0)
	case 1:
		_ = c.CloseWrite()
		_ = c.SetDeadline(time.Now().Add(talkPatience))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.v.lose("%s: after its half was ended: %v", t, err)
		}
	}
}

// dialTalk connects from a port, or from any.
func dialTalk(port int, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: talkPatience, KeepAlive: -1}
	if port != 0 {
		d.LocalAddr = &net.TCPAddr{Port: port}
		d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			control := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return errors.Join(control, err)
		}
	}
	return d.Dial("tcp", address)
}
