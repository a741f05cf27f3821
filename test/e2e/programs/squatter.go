// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// SquatterSpec describes a process that has given itself, in a network namespace of its own, the
// addresses of an i-sock and of its endpoint, and connects the one to the other again and again.
type SquatterSpec struct {
	// From and To are the addresses of i-socks and endpoint, of IPv4.
	From netip.Addr
	To   netip.AddrPort
	// First and Last of the ports that i-socks have.
	First, Last uint16
}

// SquatterReport answers the specification, when all ports have been connected from once, and each
// command.
type SquatterReport struct {
	// Handshakes so far.
	Handshakes int
	// Stolen is what came on connections whose client has sent nothing.
	Stolen []byte
}

// squatter uses system calls alone: it must be fast.
type squatter struct {
	spec     SquatterSpec
	listener int
	pairs    map[uint16]squatted
	report   SquatterReport
}

type squatted struct{ client, server int }

func runSquatter(s *stdio) error {
	q := &squatter{pairs: map[uint16]squatted{}}
	if err := s.spec(&q.spec); err != nil {
		return err
	}
	if err := q.listen(); err != nil {
		return fmt.Errorf("listen at the endpoint's address: %w", err)
	}
	commands := make(chan error)
	go func() {
		for {
			_, err := s.command()
			commands <- err
			if err != nil {
				return
			}
		}
	}()
	if err := q.round(nil); err != nil {
		return err
	}
	for {
		if err := s.answer(q.report); err != nil {
			return err
		}
		for asked := false; !asked; {
			if err := q.round(func() (bool, error) {
				select {
				case err := <-commands:
					asked = true
					return true, err
				default:
					return false, nil
				}
			}); err != nil {
				return nil // the test wants the end
			}
		}
	}
}

func (q *squatter) listen() (err error) {
	q.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	return errors.Join(err, unix.Bind(q.listener, at(q.spec.To)), unix.Listen(q.listener, 64))
}

func at(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// round connects from every port once, until it is told to stop.
func (q *squatter) round(stop func() (bool, error)) error {
	for port := q.spec.First; port <= q.spec.Last; port++ {
		if err := q.connect(port); err != nil {
			return fmt.Errorf("connect from port %d: %w", port, err)
		}
		if stop == nil {
			continue
		}
		if stopped, err := stop(); stopped || err != nil {
			return err
		}
	}
	return nil
}

// connect makes a port's connection anew. The one before was open since the last round.
func (q *squatter) connect(port uint16) (err error) {
	q.end(port)
	var pair squatted
	pair.client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.SetsockoptLinger(pair.client, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Bind(pair.client, at(netip.AddrPortFrom(q.spec.From, port))), unix.Connect(pair.client, at(q.spec.To))); err != nil {
		return err
	}
	if pair.server, _, err = unix.Accept(q.listener); err != nil {
		return err
	}
	q.pairs[port] = pair
	q.report.Handshakes++
	return nil
}

// end takes what has come at the server's end, where nothing was sent to, and resets both.
func (q *squatter) end(port uint16) {
	pair, ok := q.pairs[port]
	if !ok {
		return
	}
	delete(q.pairs, port)
	var stolen [4096]byte
	if n, _, err := unix.Recvfrom(pair.server, stolen[:], unix.MSG_DONTWAIT); err == nil && n > 0 {
		q.report.Stolen = append(q.report.Stolen, stolen[:n]...)
	}
	unix.Close(pair.client)
	unix.Close(pair.server)
}
