// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// transcript is what servers have answered in one look-up.
type transcript struct {
	mu sync.Mutex // guards the rest
	// order of the last answer's addresses.
	order []netip.Addr
	// ttl in seconds, by address.
	ttl map[netip.Addr]uint32
	// alias is the shortest time to live, in seconds, of the CNAMEs before the addresses.
	alias uint32
}

// arrange puts addresses in the order of the answer; those that no answer held are in /etc/hosts.
func (t *transcript) arrange(addrs []netip.Addr) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := func(a netip.Addr) int {
		if i := slices.Index(t.order, a); i >= 0 {
			return i
		}
		return len(t.order)
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return place(a) - place(b) })
	shortest := t.alias
	for _, a := range addrs {
		shortest = min(shortest, t.ttl[a])
	}
	if len(addrs) == 0 {
		shortest = 0
	}
	return Answer{Addrs: addrs, TTL: time.Duration(shortest) * time.Second}
}

// note keeps the addresses of an answer to the question with that number.
func (t *transcript) note(message []byte, id uint16) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil || !head.Response || head.ID != id || p.SkipAllQuestions() != nil {
		return
	}
	answers, err := p.AllAnswers()
	if err != nil {
		return
	}
	var order []netip.Addr
	ttl, alias := map[netip.Addr]uint32{}, uint32(math.MaxUint32)
	for i := range answers {
		var a netip.Addr
		switch body := answers[i].Body.(type) {
		case *dnsmessage.AResource:
			a = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			a = netip.AddrFrom16(body.AAAA).Unmap()
		case *dnsmessage.CNAMEResource:
			// An address is believed no longer than the names that lead to it (RFC 1034 section 3.6.2; c-ares counts alike).
			alias = min(alias, answers[i].Header.TTL)
			continue
		default:
			continue
		}
		order = append(order, a)
		ttl[a] = answers[i].Header.TTL
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order, t.ttl, t.alias = order, ttl, alias
}

// listen returns a connection whose answers are noted. A packet connection stays one: by that the resolver knows how messages are framed.
func (t *transcript) listen(conn net.Conn) net.Conn {
	if udp, ok := conn.(*net.UDPConn); ok {
		return &packets{UDPConn: udp, t: t}
	}
	return &stream{Conn: conn, t: t}
}

type packets struct {
	*net.UDPConn
	t  *transcript
	id uint16
}

func (c *packets) Write(b []byte) (int, error) {
	if len(b) >= 2 {
		c.id = binary.BigEndian.Uint16(b)
	}
	return c.UDPConn.Write(b)
}

func (c *packets) Read(b []byte) (int, error) {
	n, err := c.UDPConn.Read(b)
	if err == nil {
		c.t.note(b[:n], c.id)
	}
	return n, err
}

// stream has one question and one answer, each behind its length.
type stream struct {
	net.Conn
	t    *transcript
	id   uint16
	read []byte
}

func (c *stream) Write(b []byte) (int, error) {
	if len(b) >= 4 {
		c.id = binary.BigEndian.Uint16(b[2:])
	}
	return c.Conn.Write(b)
}

func (c *stream) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	if len(c.read) >= 2 {
		if length := int(binary.BigEndian.Uint16(c.read)); len(c.read) == 2+length {
			c.t.note(c.read[2:], c.id)
		}
	}
	return n, err
}
